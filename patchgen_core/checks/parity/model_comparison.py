"""One implementation of a generated module beside upstream's: its heads, run batch by batch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from patchgen_core.checks.parity.causes import join_causes
from patchgen_core.checks.parity.chance import (
    compare_another_draw,
    describe_chance,
    draw_again,
    is_chance,
    measure_error,
    repeats_itself,
)
from patchgen_core.checks.parity.changed_configs import (
    explain_other_parameters,
    is_activation_alone,
    set_activations_aside,
    take_apart,
    why_declined,
)
from patchgen_core.checks.parity.failures import Failure, explain_failure
from patchgen_core.checks.parity.head_plans import HeadPlans
from patchgen_core.checks.parity.patched_models import PatchedModels
from patchgen_core.checks.parity.raised_errors import Rerun, explain_exception, run_again
from patchgen_core.checks.parity.rank_mixes import find_unlike_ranks
from patchgen_core.checks.parity.registered_models import tell_of_upstream_base
from patchgen_core.checks.parity.tolerances import Limit, find_limit
from patchgen_core.checks.parity.training_plan import find_shortest, find_simpler
from patchgen_core.checks.result import CheckResult, Table, make_result
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.config_changes import change_config
from patchgen_core.models.model_heads import Head
from patchgen_core.models.model_run import Run, run_model
from patchgen_core.models.model_setup import PATCHED, THROUGH_SLOTS, ModelSetup
from patchgen_core.models.optional_packages import missing_package
from patchgen_core.models.references import Reference, References
from patchgen_core.models.run_comparison import Difference, are_equal, compare_runs, summarize_differences
from patchgen_core.models.toy_batches import load_builder
from patchgen_core.ops.kernel_spec import EAGER
from patchgen_core.workers.phases import phase

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass
class ModelComparison(HeadPlans):
    """One implementation's comparison: what it works with, and what came of it so far.

    ``failing`` has the head of each problem that a run of it made; ``rank_runs`` the last head's runs as on a rank, by
    batch; ``refused`` tells of changes of the configuration that upstream's models or the patched ones do not take,
    ``lacking`` of a package that some head needs and this machine has not.
    """

    references: References
    device: str
    setup: ModelSetup
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    batches: dict[str, None] = field(default_factory=dict)
    failing: dict[Problem, str] = field(default_factory=dict)
    rank_runs: dict[str, tuple[Run, Run]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    lacking: str = ""

    def __post_init__(self) -> None:
        self.patched = PatchedModels(
            self.request, self.device, self.recorder, self.setup, notes=self.notes, problems=self.problems
        )

    def verdict(self) -> CheckResult:
        """What was found."""
        notes, warnings = [*self.notes], [*self.warnings]
        notes += self.refused
        notes += [f"{', '.join(heads)}: {dimension}" for dimension, heads in self.varied.items()]
        for base, heads in self.patched.not_patched.items():
            told = tell_of_upstream_base(base, heads, self.request.declared)
            if isinstance(told, Problem):
                warnings.append(told)
            else:
                notes.append(told)
        return make_result(
            join_causes(self.problems, self.failing),
            notes=tuple(notes),
            figures=self.figures,
            warnings=tuple(warnings),
            tables=tuple(self.tables),
        )

    def compare(self, head: Head, is_main: bool) -> None:
        """Run the batches of one head, until one differs."""
        request = self.request
        builders = tuple(map(load_builder, request.batches))
        config = self.config(head, is_main)
        try:
            reference = self.references.get(head, config, builders, self.device)
        except PatchgenError as error:  # upstream's class lacks a package, or does not take the configuration
            problem = error.problems[0]
            message = f"{head.name} is not compared: {problem.message}"
            self.warnings.append(replace(problem, message=message, location=request.declared))
            return
        self.notes += [f"{head.name}: {reason}" for reason in reference.batches.refused]
        self.recorder.begin_model()
        self.rank_runs.clear()
        models: dict[str, PreTrainedModel] = {}
        for dtype, batch in self.plan(head, reference, is_main):
            if is_main:
                self.note_batch(batch)
            if batch.changes:
                agrees = self._agrees_changed(head, reference, dtype, batch)
            else:
                alike, is_exact = batch.computed_alike, not self._may_be_equal(batch)
                runs = self._runs_upstream(reference, alike, dtype, is_exact=is_exact)
                agrees = not runs or self._agrees(head, reference, models, dtype, batch)
            if not agrees:
                return
        self.problems += find_unlike_ranks(head.name, self.rank_runs, request)

    def _agrees_changed(self, head: Head, reference: Reference, dtype: str, batch: ToyBatch) -> bool:
        """Compare models of a changed configuration; whether they agree.

        Changes that upstream or the patched model does not take together are taken apart, and so are those with which
        the models part, so that what is told is about as few as can be.
        """
        has_kernels = self.request.implementation not in (EAGER, PATCHED)
        if has_kernels and (parts := set_activations_aside(batch)):
            return all(self._agrees_changed(head, reference, dtype, part) for part in parts)
        refused, problems, tables = len(self.refused), len(self.problems), len(self.tables)
        try:
            config = change_config(reference.config, batch.changes)
            changed = self.references.get(head, config, reference.builders, self.device)
        except PatchgenError as error:
            self.refused.append(f"{head.name}, batch '{batch.name}': {error.problems[0].message}")
            agrees = True
        else:
            runs = self._runs_upstream(changed, batch, dtype, is_exact=False)
            agrees = not runs or self._agrees(head, changed, {}, dtype, batch)
        own, wrong, figures = self.refused[refused:], self.problems[problems:], self.tables[tables:]
        parts = take_apart(batch, " ".join(own)) if own or not agrees else []
        if not parts and not agrees and has_kernels and is_activation_alone(batch):
            self.warnings += wrong  # kernels are made for one
            del self.problems[problems:], self.tables[tables:]
            return True
        if not parts:
            return agrees
        del self.refused[refused:], self.problems[problems:], self.tables[tables:]
        agrees_apart = all(self._agrees_changed(head, reference, dtype, part) for part in parts)
        if agrees_apart and not agrees:  # they do not agree with all of them alone
            self.problems += wrong
            self.tables += figures
        return agrees_apart and agrees

    def _agrees(
        self, head: Head, reference: Reference, models: dict[str, PreTrainedModel], dtype: str, batch: ToyBatch
    ) -> bool:
        """Compare one batch, on a model that is built when it is first needed; whether another one can be."""
        request = self.request
        self.batches[batch.name] = None
        try:
            if dtype not in models:
                with phase("building models"):
                    models[dtype] = self.patched.build(head, reference, dtype, is_toy=not batch.changes)
                kinds = {path: type(part).__name__ for path, part in models[dtype].named_modules()}
                self.parts.setdefault(head.name, kinds)
                self.recorder.note_places(kinds)
            failure = self._run(head, reference, models[dtype], dtype, batch)
            if failure is not None:
                failure = self._simplest(failure, head, reference, models[dtype], batch)
        except PatchgenError as error:  # it has other parameters
            return self._allows_other_parameters(error, reference, dtype, batch)
        except Exception as error:
            if batch.changes and (reason := why_declined(error)):
                self.refused.append(f"{head.name}, batch '{batch.name}': {reason}")
                return True
            if batch.computed_alike is not batch and not self._runs_upstream(reference, batch, dtype):
                return True  # which upstream's does not compute either
            if not self._lacks_optional_package(head, error):
                where = f"{head.name}, batch '{batch.name}', {dtype}"
                rerun = partial(self._run_again, reference, models.get(dtype), dtype, batch)
                problem = explain_exception(where, error, request, batch.mode, self.recorder.executions, rerun)
                self.problems.append(problem)
                self.failing[problem] = head.name
            return False
        if failure is not None:
            problem, tables = explain_failure(failure, request, self.recorder.executions)
            self.problems.append(problem)
            self.failing[problem] = head.name
            self.tables += tables
        return failure is None

    def _simplest(
        self, failure: Failure, head: Head, reference: Reference, model: PreTrainedModel, batch: ToyBatch
    ) -> Failure:
        """The failure of the training batch that passes least and fails too, in place of that of a fuller one."""
        if batch.mode.name or batch.changes or self.recorder.is_interpreted:
            return failure
        for one in find_simpler(reference.batches.batches, batch):
            if self._runs_upstream(reference, one, failure.dtype):
                other = self._run(head, reference, model, failure.dtype, one)
                if other is not None:
                    return other
        return failure

    def _run_again(
        self, reference: Reference, model: PreTrainedModel | None, dtype: str, batch: ToyBatch
    ) -> Rerun | None:
        """A run that raises, once more; None where the model could not be built, or cannot be watched."""
        if model is None or not batch.mode.is_watched:
            return None
        batches = batch, self.patched.own_batch(model, batch)
        multiple = self._limit(reference.head, dtype, batch).multiple
        with phase("explaining"), self.patched.isolated():
            return run_again(reference, model, batches, getattr(torch, dtype), multiple, self.recorder.for_one_run())

    def _allows_other_parameters(
        self, error: PatchgenError, reference: Reference, dtype: str, batch: ToyBatch
    ) -> bool:
        if not batch.changes:
            raise error
        where = f"{reference.head.name}, batch '{batch.name}', {dtype}"
        problem, patch = explain_other_parameters(where, error.problems[0], reference.toy.model, self.request)
        if patch is not None and patch.module:  # made for published checkpoints
            self.refused.append(problem.message)
            return True
        self.problems.append(problem)
        return False

    def _lacks_optional_package(self, head: Head, error: Exception) -> bool:
        """Whether a patched model needs a package that only some machines have, and this one has not."""
        package = missing_package(error)
        if not package:
            return False
        self.parts.pop(head.name, None)
        self.lacking = self.skipped[head.name] = f"optional package '{package}' is not installed"
        return True

    def _runs_upstream(self, reference: Reference, batch: ToyBatch, dtype: str, *, is_exact: bool = True) -> bool:
        """Whether there is something to compare with; a warning says why not, or a note for what is varied.

        Args:
            is_exact: whether it is to run in float64 as well, where bits may differ.
        """
        try:
            reference.run(batch, getattr(torch, dtype))
            if self._limit(reference.head, dtype, batch).multiple and is_exact:
                reference.run_exactly(batch, getattr(torch, dtype))
        except PatchgenError as error:
            if batch.changes:
                self.refused += [problem.message for problem in error.problems]
            elif all(batch is not one for one in reference.batches.batches):
                self.notes += [problem.message for problem in error.problems]
            else:
                self.warnings += [replace(problem, location=self.request.declared) for problem in error.problems]
            return False
        return True

    def _may_be_equal(self, batch: ToyBatch) -> bool:
        """Whether bits may well be those of eager, or it takes long to tell how far these are off."""
        return batch.is_large or self.request.implementation == THROUGH_SLOTS

    def _limit(self, head: Head, dtype: str, batch: ToyBatch) -> Limit:
        request = self.request
        # an external patch puts a kernel there for good
        has_kernels = batch.is_rounded or any(patch.module for patch in request.patches)
        tolerances = request.project_tolerances
        return find_limit(request.implementation, dtype, request.tolerances, tolerances, has_kernels, head.name)

    def _run(
        self, head: Head, reference: Reference, model: PreTrainedModel, dtype: str, batch: ToyBatch
    ) -> Failure | None:
        """Compare one run with upstream's."""
        limit = self._limit(head, dtype, batch)
        alike = batch.computed_alike
        eager = reference.run(alike, getattr(torch, dtype))
        own = self.patched.own_batch(model, batch)
        self.recorder.begin_batch()
        with phase("patched models"), self.patched.isolated():
            in_full = not self.recorder.is_interpreted or batch is find_shortest(reference.batches.batches)
            patched = run_model(model, own, self.recorder, logits_alone=in_full, like=eager)
        if alike is not batch and not are_equal(patched, eager):
            if not self._runs_upstream(reference, batch, dtype):
                return None
            eager = reference.run(batch, getattr(torch, dtype))
        if batch.as_rank and not batch.mode.name and dtype == self.request.dtypes[0]:
            self.rank_runs[batch.name] = (patched, eager)
        if limit.multiple and self._may_be_equal(batch):  # what float64 gives is asked for where it decides
            if are_equal(patched, eager):
                limit = replace(limit, multiple=0.0)
            elif not self._runs_upstream(reference, batch, dtype):
                return None
        truth = reference.run_exactly(batch, getattr(torch, dtype)) if limit.multiple else None
        with phase("comparing"):
            differences = compare_runs(patched, eager, truth, limit.multiple)
        failure = Failure(
            head.name,
            batch.name,
            dtype,
            limit,
            differences,
            patched,
            eager,
            truth,
            batch.mode,
            inputs=batch.inputs,
            about=batch.about,
        )
        self.figures.update(summarize_differences(failure.figures_of, differences))
        if not failure.wrong:
            return None
        failure = replace(failure, draws=self._draw_again(failure, reference, model, batch))
        if is_chance(failure):
            self.notes.append(describe_chance(failure))
            return None
        detailed = self._in_detail(failure, reference, model, batch)
        if repeats_itself(failure, detailed.eager):
            return detailed
        self.notes.append(
            f"{failure.title}: upstream's model gives a different result each time, and so does the patched one"
        )
        return None

    def _draw_again(
        self, failure: Failure, reference: Reference, model: PreTrainedModel, batch: ToyBatch
    ) -> tuple[float, ...]:
        """How many times what is allowed a small difference is with other random parameters."""

        def draw(seed: int) -> list[Difference]:
            other = self.references.get(reference.head, reference.config, reference.builders, self.device, seed)
            own = self.patched.own_batch(model, batch)
            with self.patched.isolated():
                return compare_another_draw(other, reference, model, batch, own, failure)

        return draw_again(failure, draw)

    def _in_detail(self, failure: Failure, reference: Reference, model: PreTrainedModel, batch: ToyBatch) -> Failure:
        """A failure with what every module gives, which is kept of a second run."""
        dtype, multiple = getattr(torch, failure.dtype), failure.allowed.multiple
        with phase("explaining"):
            eager = reference.run(batch, dtype, layers=True)
            truth = reference.run_exactly(batch, dtype, layers=True) if multiple else None
            own = self.patched.own_batch(model, batch)
            recorder = self.recorder.for_one_run()
            with self.patched.isolated():
                patched = run_model(model, own, recorder, logits_alone=False, like=eager, layers=True)
            is_again = not all(difference.is_right for difference in compare_runs(patched, eager, truth, multiple))
            measured = measure_error(failure, reference, batch)
        failure = replace(failure, patched=patched, eager=eager, reference=truth, executions=recorder.executions)
        return replace(failure, is_again=is_again, measured=measured)
