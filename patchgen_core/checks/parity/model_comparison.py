"""One implementation of a generated module beside upstream's: its heads, run batch by batch."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from patchgen_core.checks.parity.chance import (
    agrees_with,
    describe_chance,
    may_be_chance,
    measure_error,
    repeats_itself,
)
from patchgen_core.checks.parity.dimensions.dimension import Subject
from patchgen_core.checks.parity.dimensions.registry import vary
from patchgen_core.checks.parity.failures import Failure, explain_failure
from patchgen_core.checks.parity.patched_names import find_patched_names
from patchgen_core.checks.parity.raised_errors import Rerun, explain_exception, run_again
from patchgen_core.checks.parity.rank_mixes import find_unlike_ranks
from patchgen_core.checks.parity.registered_models import is_registered
from patchgen_core.checks.parity.request import ParityRequest
from patchgen_core.checks.parity.tolerances import Limit, find_limit
from patchgen_core.checks.parity_codes import NOT_PATCHED, UNINITIALIZED
from patchgen_core.checks.result import CheckResult, Table, make_result
from patchgen_core.errors import PatchgenError, Problem, list_some
from patchgen_core.models.batch_validation import describe_error
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.execution import ExecutionRecorder
from patchgen_core.models.model_heads import Head
from patchgen_core.models.model_run import Run, run_model
from patchgen_core.models.model_setup import PATCHED, THROUGH_SLOTS, ModelSetup
from patchgen_core.models.optional_packages import missing_package
from patchgen_core.models.process_state import preserve_process_state
from patchgen_core.models.project_function import place_of
from patchgen_core.models.references import Reference, References
from patchgen_core.models.run_comparison import compare_runs, summarize_differences
from patchgen_core.models.toy_batches import load_builder
from patchgen_core.models.toy_config import load_toy_config, part_of_toy_config
from patchgen_core.models.toy_models import auto_models, build_model, initial_values, initialized_otherwise, load_state
from patchgen_core.ops.kernel_spec import EAGER
from patchgen_core.project.parity_settings import THOROUGH
from patchgen_core.workers.phases import phase

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

_HEADS = "Register the generated classes (register_with_auto), or leave these heads out (exclude_from_output)."
_START = (
    "Initialize them one module at a time in _init_weights: transformers skips modules without own parameters here."
)
_MOST_NAMED = 4


@dataclass
class ModelComparison:
    """One implementation's comparison: what it works with, and what came of it so far.

    ``skipped`` are the heads that are not compared on purpose, and why; ``parts`` the class names of every head's
    modules by path; ``not_patched`` the heads that AutoModel gives a model of upstream's, by the generated class of
    that; ``varied`` the heads by what is varied beside training steps, and why; ``rank_runs`` the last head's runs as
    on a rank, by batch; ``lacking`` tells of a package that some head needs and this machine has not.
    """

    request: ParityRequest
    references: References
    device: str
    recorder: ExecutionRecorder
    setup: ModelSetup
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    parts: dict[str, Mapping[str, str]] = field(default_factory=dict)
    batches: dict[str, None] = field(default_factory=dict)
    not_patched: dict[type, list[str]] = field(default_factory=dict)
    varied: dict[str, list[str]] = field(default_factory=dict)
    rank_runs: dict[str, tuple[Run, Run]] = field(default_factory=dict)
    started_otherwise: dict[str, None] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    lacking: str = ""

    def verdict(self) -> CheckResult:
        """What was found."""
        notes, warnings = [*self.notes], [*self.warnings]
        notes += [f"{', '.join(heads)}: {dimension}" for dimension, heads in self.varied.items()]
        for base, heads in self.not_patched.items():
            message = f"upstream's {base.__name__} is what AutoModel puts into {', '.join(heads)}"
            if is_registered(base):
                notes.append(f"{message}, without the patches, unless register_with_auto() was called")
            else:
                message, declared = f"{message}, without the patches", self.request.declared
                warnings.append(Problem(message, declared, _HEADS, code=NOT_PATCHED, target=base.__name__))
        return make_result(
            tuple(self.problems),
            notes=tuple(notes),
            figures=self.figures,
            warnings=tuple(warnings),
            tables=tuple(self.tables),
        )

    def compare(self, head: Head, is_main: bool) -> None:
        """Run the batches of one head, until one differs."""
        request = self.request
        builders = tuple(map(load_builder, request.batches))
        config = self._config(head, is_main)
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
        is_patched = any(patch.target.partition(".")[0] == head.name for patch in request.patches)
        batches = self._wanted_batches(head, reference)
        plan = self._plan(batches, is_main, is_patched)
        is_contained = any(head.name in kinds.values() for kinds in self.parts.values())
        if is_main or (is_patched and not is_contained):
            plan = chain(plan, self._vary(head, reference, batches, is_main))
        models: dict[str, PreTrainedModel] = {}
        for dtype, batch in plan:
            if self._runs_upstream(reference, batch, dtype) and not self._agrees(
                head, reference, models, dtype, batch
            ):
                return
        self.problems += find_unlike_ranks(head.name, self.rank_runs, request)

    def _agrees(
        self, head: Head, reference: Reference, models: dict[str, PreTrainedModel], dtype: str, batch: ToyBatch
    ) -> bool:
        """Compare one batch, on a model that is built when it is first needed; whether another one can be."""
        request = self.request
        self.batches[batch.name] = None
        try:
            if dtype not in models:
                with phase("building models"):
                    models[dtype] = self._build(head, reference, dtype)
                kinds = {path: type(part).__name__ for path, part in models[dtype].named_modules()}
                self.parts[head.name] = kinds
                self.recorder.note_places(kinds)
            failure = self._run(head, reference, models[dtype], dtype, batch)
        except PatchgenError:  # it has other parameters
            raise
        except Exception as error:
            if not self._lacks_optional_package(head, error):
                where = f"{head.name}, batch '{batch.name}', {dtype}"
                rerun = partial(self._run_again, reference, models.get(dtype), dtype, batch)
                self.problems.append(
                    explain_exception(where, error, request, batch.mode, self.recorder.executions, rerun)
                )
            return False
        if failure is not None:
            problem, tables = explain_failure(failure, request, self.recorder.executions)
            self.problems.append(problem)
            self.tables += tables
        return failure is None

    def _run_again(
        self, reference: Reference, model: PreTrainedModel | None, dtype: str, batch: ToyBatch
    ) -> Rerun | None:
        """A run that raises, once more; None where the model could not be built, or cannot be watched."""
        if model is None or not batch.mode.is_watched:
            return None
        batches, multiple = (batch, self._own_batch(model, batch)), self._limit(reference.head, dtype, batch).multiple
        with phase("explaining"), self._isolated():
            return run_again(reference, model, batches, getattr(torch, dtype), multiple)

    def _vary(
        self, head: Head, reference: Reference, batches: Sequence[ToyBatch], is_main: bool
    ) -> Iterator[tuple[str, ToyBatch]]:
        """What to run beside training steps, in the first dtype."""
        if self.recorder.is_interpreted:
            return
        names = find_patched_names(self.request, sys.modules[self.request.upstream].__file__ or "")
        has_kernels = self.request.implementation not in (EAGER, PATCHED)
        targets = frozenset(patch.target for patch in self.request.patches)
        is_thorough = self.request.level == THOROUGH
        subject = Subject(
            reference.toy, tuple(batches), names, has_kernels, reference.make, targets, is_main, is_thorough
        )
        for dimension, reason, variations in vary(subject, self.request.level):
            heads = self.varied.setdefault(f"{dimension.name} is varied, because {reason}", [])
            heads.append(head.name)
            for batch in variations:
                if not self.request.why_left_out(head.name, batch.name):
                    yield self.request.dtypes[0], batch

    def _lacks_optional_package(self, head: Head, error: Exception) -> bool:
        """Whether a patched model needs a package that only some machines have, and this one has not."""
        package = missing_package(error)
        if not package:
            return False
        self.parts.pop(head.name, None)
        self.lacking = self.skipped[head.name] = f"optional package '{package}' is not installed"
        return True

    def _config(self, head: Head, is_main: bool) -> PreTrainedConfig:
        """The toy configuration of a head; the patch config's own is for the main one and its like, and its parts."""
        config_class = head.upstream.config_class
        assert config_class is not None
        request, model_type = self.request, config_class.model_type
        toy_root = Path(request.toy_root) if request.toy_root else None
        self._main = config_class if is_main else self._main
        toy_config = request.toy_config
        if self._main is not None and config_class is not self._main:
            toy_config = part_of_toy_config(config_class, self._main, toy_config)
        with phase("toy configurations"):
            return load_toy_config(config_class, toy_config, toy_root, model_type)

    _main: type[PreTrainedConfig] | None = None

    def _wanted_batches(self, head: Head, reference: Reference) -> list[ToyBatch]:
        """The batches that the project does not leave out; a note tells of those that it does."""
        batches: list[ToyBatch] = []
        reasons: list[str] = []
        for batch in reference.batches.batches:
            if reason := self.request.why_left_out(head.name, batch.name):
                self.notes.append(f"{head.name}, batch '{batch.name}' is left out: {reason}")
                reasons.append(reason)
            else:
                batches.append(batch)
        if reasons and not batches:
            self.skipped[head.name] = "; ".join(dict.fromkeys(reasons))
        return batches

    def _plan(self, batches: Sequence[ToyBatch], is_main: bool, is_patched: bool) -> Iterator[tuple[str, ToyBatch]]:
        """What to run, the first dtype first; whether kernels are interpreted shows when the first batch has run."""
        names, implementation = {batch.name for batch in batches}, self.request.implementation
        labelled = [batch for batch in batches if "labels" in batch.inputs]
        shortest = min(labelled or batches, key=lambda batch: batch.size, default=None)
        for number, dtype in enumerate(self.request.dtypes):
            for batch in batches:
                is_seen = batch.seen_in in names and implementation != PATCHED
                is_needed = batch is shortest if number else batch.covered_by not in names and not is_seen
                is_needed = is_needed if is_main else is_patched and batch is shortest and not number
                is_short = self.recorder.is_interpreted or (number and implementation == THROUGH_SLOTS)
                if is_needed or not is_short:
                    yield dtype, batch

    @contextmanager
    def _isolated(self) -> Iterator[None]:
        """Run patched code in the project's run time, and put back what it changes for upstream's; a note tells."""
        with preserve_process_state() as changes, self.setup.run_time():
            yield
        self.notes += [line for line in changes if line not in self.notes]

    def _runs_upstream(self, reference: Reference, batch: ToyBatch, dtype: str) -> bool:
        """Whether there is something to compare with; a warning says why not, or a note for what is varied."""
        try:
            reference.run(batch, getattr(torch, dtype))
            if self._limit(reference.head, dtype, batch).multiple:
                reference.run_exactly(batch, getattr(torch, dtype))
        except PatchgenError as error:
            if batch.mode.name:
                self.notes += [problem.message for problem in error.problems]
            else:
                self.warnings += [replace(problem, location=self.request.declared) for problem in error.problems]
            return False
        return True

    def _limit(self, head: Head, dtype: str, batch: ToyBatch) -> Limit:
        request = self.request
        # an external patch puts a kernel there for good
        has_kernels = batch.mode.is_rounded or any(patch.module for patch in request.patches)
        tolerances = request.project_tolerances
        return find_limit(request.implementation, dtype, request.tolerances, tolerances, has_kernels, head.name)

    def _build(self, head: Head, reference: Reference, dtype: str) -> PreTrainedModel:
        """The patched model with upstream's parameters; also where AutoModel would put upstream's into it."""
        model = self._build_patched(head, reference, dtype)
        upstream_parts = self._find_upstream_parts(head, model)
        for own in upstream_parts.values():
            heads = self.not_patched.setdefault(own, [])
            heads += [head.name] * (head.name not in heads)
        if upstream_parts:
            with auto_models(upstream_parts):
                model = self._build_patched(head, reference, dtype)
        self._check_start(head, model, reference)
        load_state(model, reference.state)
        return model

    def _check_start(self, head: Head, model: PreTrainedModel, reference: Reference) -> None:
        """Parameters that do not start as upstream's do: told once for each, whichever heads have it."""
        if self.request.implementation not in (EAGER, PATCHED):
            return
        names = initialized_otherwise(initial_values(model), reference.initial)
        new = [name for name in names if not any(suffix.endswith(name) for suffix in self.started_otherwise)]
        self.started_otherwise.update(dict.fromkeys(new))
        if new:
            message = f"{head.name} does not initialize {list_some(new, _MOST_NAMED)} as upstream's does"
            target = head.name
            self.problems.append(Problem(message, self.request.declared, _START, code=UNINITIALIZED, target=target))

    def _find_upstream_parts(self, head: Head, model: PreTrainedModel) -> dict[type, type]:
        """The generated classes, by configuration class, for what AutoModel makes of upstream's.

        The model below a head is one, and so is any part for which there are patches, such as the text model of a
        model that sees.
        """
        module, base = sys.modules[head.generated.__module__], getattr(model, model.base_model_prefix, None)
        patched = {patch.target.partition(".")[0] for patch in self.request.patches}
        classes: dict[type, type] = {}
        outer: list[str] = []
        for path, part in model.named_modules():
            own = getattr(module, type(part).__name__, None)
            if own is None or type(part).__module__ != head.upstream.__module__ or not hasattr(part, "config_class"):
                continue
            if any(path.startswith(f"{name}.") for name in outer):  # comes with that
                continue
            if part is base or patched & {type(inner).__name__ for inner in part.modules()}:
                classes.setdefault(type(part.config), own)
                outer.append(path)
        return classes

    def _build_patched(self, head: Head, reference: Reference, dtype: str) -> PreTrainedModel:
        """Built as upstream's model was, from the same configuration: what fails here is the patched code."""
        try:
            with self._isolated(), self.recorder.recording():
                return build_model(head.generated, reference.config, getattr(torch, dtype), self.device)
        except PatchgenError as error:
            raise error.__cause__ or error from None

    def _run(
        self, head: Head, reference: Reference, model: PreTrainedModel, dtype: str, batch: ToyBatch
    ) -> Failure | None:
        """Compare one run with upstream's."""
        limit = self._limit(head, dtype, batch)
        eager = reference.run(batch, getattr(torch, dtype))
        truth = reference.run_exactly(batch, getattr(torch, dtype)) if limit.multiple else None
        own = self._own_batch(model, batch)
        with phase("patched models"), self._isolated():
            in_full = batch is reference.batches.batches[0] or not self.recorder.is_interpreted
            patched = run_model(model, own, self.recorder, logits_alone=in_full, like=eager)
        if batch.as_rank and not batch.mode.name and dtype == self.request.dtypes[0]:
            self.rank_runs[batch.name] = (patched, eager)
        with phase("comparing"):
            differences = compare_runs(patched, eager, truth, limit.multiple)
        self.figures.update(summarize_differences(f"{head.name}, {batch.name}, {dtype}", differences))
        failure = Failure(head.name, batch.name, dtype, limit, differences, patched, eager, truth)
        if not failure.wrong or self._is_chance(failure, reference, model, batch):
            return None
        detailed = self._in_detail(failure, reference, model, batch)
        if repeats_itself(failure, detailed.eager):
            return detailed
        self.notes.append(f"{failure.title}: upstream's model gives something else each time, as the patched one does")
        return None

    def _is_chance(self, failure: Failure, reference: Reference, model: PreTrainedModel, batch: ToyBatch) -> bool:
        """Whether a small difference is gone with other random parameters; a note tells."""
        if not may_be_chance(failure):
            return False
        builders, own = tuple(map(load_builder, self.request.batches)), self._own_batch(model, batch)
        other = self.references.get(reference.head, reference.config, builders, self.device, seed=1)
        with self._isolated():
            is_chance = agrees_with(other, reference, model, batch, own, failure)
        self.notes += [describe_chance(failure)] if is_chance else []
        return is_chance

    def _own_batch(self, model: PreTrainedModel, batch: ToyBatch) -> ToyBatch:
        """A batch with what the project's collator adds to it, where one has made it."""
        if not batch.mode.is_collated:
            return batch
        try:
            with self._isolated():
                return replace(batch, inputs=self.setup.inputs_for(model, batch.inputs))
        except Exception as error:
            name = type(model).__name__
            message = f"a function of add_inputs fails for {name}, batch '{batch.name}': {describe_error(error)}"
            raise PatchgenError(message, place_of(error)) from error

    def _in_detail(self, failure: Failure, reference: Reference, model: PreTrainedModel, batch: ToyBatch) -> Failure:
        """A failure with what every module gives, which is kept of a second run."""
        dtype, multiple = getattr(torch, failure.dtype), failure.allowed.multiple
        with phase("explaining"):
            eager = reference.run(batch, dtype, layers=True)
            truth = reference.run_exactly(batch, dtype, layers=True) if multiple else None
            own = self._own_batch(model, batch)
            with self._isolated():
                patched = run_model(model, own, logits_alone=False, like=eager, layers=True)
            is_again = not all(difference.is_right for difference in compare_runs(patched, eager, truth, multiple))
            measured = measure_error(failure, reference, batch)
        return replace(failure, patched=patched, eager=eager, reference=truth, is_again=is_again, measured=measured)
