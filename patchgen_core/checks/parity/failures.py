"""What a comparison that fails tells: the worst tensors, where the models part, and the patches that lie there."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchgen_core.checks.parity.divergence import (
    Divergence,
    find_divergence,
    find_suspects,
    fresh_lines,
    suspected_module,
)
from patchgen_core.checks.parity.draws import describe_draws
from patchgen_core.checks.parity.factors import LOSS, count_items, describe_factor, describe_multiple
from patchgen_core.checks.parity.findings import excerpt_at, lines_of
from patchgen_core.checks.parity.request import ParityRequest, PatchedCode
from patchgen_core.checks.parity.tolerances import Limit
from patchgen_core.checks.result import BACKWARD, LAYERS, RIGHT, TENSORS, WHOLE, Table
from patchgen_core.errors import Problem, Snippet
from patchgen_core.files import read_text
from patchgen_core.models.batches import describe_inputs
from patchgen_core.models.execution import Execution
from patchgen_core.models.model_run import Run
from patchgen_core.models.modes import TRAINING, Mode
from patchgen_core.models.run_comparison import ComparedRuns, Difference
from patchgen_core.project.parity_settings import HEAD_MARK

_COLUMNS = ("shape", "dtype", "absolute", "relative", "allowed", "verdict")
_ASKS = re.compile(r"\bif \w+\.(has_kernel|use_eager_impl|use_non_eager_impl|bound_kernel)\b.*:$")
_CHANGES = "It keeps state from one run to the next, or is not deterministic, so no module can be named."
_MOST_OTHERS = 3
_MOST_LINES = 8
_ROOM = 2
"""How much larger than in one batch the same rounding may be in others."""
_ROUNDING = 32
"""How many times the error of eager a difference may be that rounding alone can make."""


@dataclass(frozen=True)
class Failure:
    """A batch of which a patched model computes something else.

    ``reference`` is None where bits were compared; ``is_again`` says that the model was wrong a second time, when the
    layers of these runs were kept; ``measured`` is how many times the error of eager it is off, infinite where values
    are missing or of another shape; ``inputs`` are those of the batch and ``about`` says what it is; ``executions``
    say what ran of each patch that time; ``draws`` how many times what is allowed it is off with other random
    parameters, where that was asked for.
    """

    head: str
    batch: str
    dtype: str
    allowed: Limit
    differences: Sequence[Difference]
    patched: Run
    eager: Run
    reference: Run | None
    mode: Mode = TRAINING
    is_again: bool = True
    measured: float = float("inf")
    inputs: Mapping[str, Any] = field(default_factory=dict)
    executions: Mapping[str, Execution] = field(default_factory=dict)
    about: str = ""
    draws: Sequence[float] = ()

    @property
    def title(self) -> str:
        """Which comparison it is."""
        return f"{self.head}, batch '{self.batch}', {self.dtype}"

    @property
    def figures_of(self) -> str:
        """What begins the names of its figures."""
        return f"{self.head}, {self.batch}, {self.dtype}"

    @property
    def wrong(self) -> list[Difference]:
        """What is not right, worst first."""
        bad = [difference for difference in self.differences if not difference.is_right]
        return sorted(bad, key=lambda d: (-d.excess, -d.relative))


def explain_failure(
    failure: Failure, request: ParityRequest, executions: Mapping[str, Execution]
) -> tuple[Problem, list[Table]]:
    """What to tell of a failure: the problem, at the declaration of the patch to look at first, and its figures."""
    if not failure.is_again:
        message = f"{failure.head} differs from Hugging Face eager, and agrees when the same batch runs again"
        hint = "\n  ".join([*_describe_figures(failure), _CHANGES])
        return Problem(message, request.declared, hint, excerpt_at(request.declared)), [_tensors(failure)]
    runs = ComparedRuns(failure.patched, failure.eager, failure.reference, failure.allowed.multiple)
    divergence = find_divergence(runs, failure.differences)
    text = (request.text if request.text is not None else read_text(Path(request.path))) or ""
    slot_checks = find_slot_checks(text)
    suspects = find_suspects(divergence, request.patches, failure.executions, slot_checks)
    if suspects:  # of those that ran on any batch so far only where none did on this one
        executions = failure.executions
    suspects = suspects or find_suspects(divergence, request.patches, executions, slot_checks)
    suspects = find_patches_of(failure.mode, request) or suspects
    first = suspects[0] if suspects else None
    place = suspected_module(divergence, executions[first.target] if first else None)
    module = _describe_module(runs, place)
    named = f": look at the patch of '{first.target}'" if first else ", where no patch runs"
    direction = "going backward in" if divergence.is_backward else "in"
    message = f"{failure.head} differs from Hugging Face eager {direction} {module}{named}"
    location = first.declared if first else request.declared
    beginning = _describe_beginning(runs, divergence, failure.wrong[0])
    others, setting = describe_other_suspects(suspects), _describe_setting(failure, request.implementation)
    hint = "\n  ".join(filter(None, [*_describe_figures(failure), beginning, others, setting]))
    lines = show_fresh_lines(first, request.path, executions, slot_checks) if first else None
    target = first.target if first else ""
    problem = Problem(message, location, hint, excerpt_at(location), generated=lines, target=target)
    return problem, _tables(failure, runs, divergence)


def find_patches_of(mode: Mode, request: ParityRequest) -> list[PatchedCode]:
    """The patches of the method that a mode is there for: what fails in it does not fail without."""
    return [one for one in request.patches if mode.method and one.target.endswith(f".{mode.method}")]


def find_slot_checks(text: str) -> set[int]:
    """The lines of a generated module that ask whether a slot has a kernel."""
    return {number for number, line in enumerate(text.split("\n"), 1) if _ASKS.search(line)}


def show_fresh_lines(
    patch: PatchedCode, path: str, executions: Mapping[str, Execution], slot_checks: Container[int]
) -> Snippet | None:
    """The lines of a patch in the generated module that ran and that upstream does not have."""
    return lines_of(path, fresh_lines(patch, executions[patch.target], slot_checks)[:_MOST_LINES])


def _describe_figures(failure: Failure) -> Iterator[str]:
    worst, count = failure.wrong[0], len(failure.differences)
    summary = f"Batch '{failure.batch}', {failure.dtype}: {len(failure.wrong)} of {count} tensors differ"
    passed = ": ".join(filter(None, [failure.about, describe_inputs(failure.inputs)]))
    yield f"{summary}, allowed {failure.allowed}. It passes {passed}."
    yield f"The worst: {worst.name}{_describe_difference(worst)}."
    factor = describe_factor(failure.wrong, failure.patched, failure.eager, failure.dtype, count_items(failure.inputs))
    if factor:
        yield factor
    if draws := describe_draws(worst.excess, failure.draws):
        yield draws


def _describe_setting(failure: Failure, implementation: str) -> str:
    """Which setting lets a failure pass that is no more than another order of rounding; empty for a larger one."""
    if failure.measured > _ROUNDING:
        return ""
    multiple = max(math.ceil(_ROOM * failure.measured), 1)
    return (
        f"That is {failure.measured:.1f} x the error of eager, as another order of computing may cause. If it is "
        "intended, with"
        f" room for other batches: config.tolerate({multiple}, '<why>', implementation='{implementation}',"
        f" head='{failure.head}'), or"
        f' tolerance = {{ "{failure.head}{HEAD_MARK}{implementation}" = {multiple} }} in [tool.patchgen.parity].'
    )


def _describe_difference(worst: Difference) -> str:
    if worst.shape.endswith("none") or " instead of " in worst.shape:
        return f" is {worst.shape}"
    if " instead of " in worst.dtype:
        return f" is {worst.dtype}"
    limit = f", allowed {worst.allowed:.1e}" if worst.allowed else ""
    return f", relative error {worst.relative:.1e}{limit}"


def _describe_beginning(runs: ComparedRuns, divergence: Divergence, worst: Difference) -> str:
    """Where it begins."""
    if divergence.writes:
        return f"{_describe_module(runs, divergence.first)} writes into its inputs, which upstream's does not."
    if not divergence.is_backward:
        after = f", right after '{divergence.after}', where both agree" if divergence.after else ""
        first = f"The first output that differs is from {_describe_module(runs, divergence.first)}{after}."
        ours, theirs = (run.layers.get(divergence.first) for run in (runs.patched, runs.eager))
        return f"{first} {describe_multiple(ours, theirs, worst.dtype)}".rstrip()
    if divergence.first:
        after = f", coming from '{divergence.after}', where both agree" if divergence.after else ""
        where = _describe_module(runs, divergence.first)
        return f"Forward agrees. The first gradient that differs is for the output of {where}{after}."
    if divergence.parameter:
        return (
            f"Forward agrees, and so do the gradients that arrive there; the gradient of '{divergence.parameter}' "
            "does not."
        )
    return f"All outputs and their gradients agree: look at the code that computes {worst.name}."


def describe_other_suspects(suspects: Sequence[PatchedCode]) -> str:
    """A sentence about patches to look at after the first, one of each other target; empty for none."""
    first: dict[str, PatchedCode] = {}
    for patch in suspects:
        first.setdefault(patch.target, patch)
    named = "; ".join(f"{patch.target} ({patch.declared})" for patch in [*first.values()][1 : 1 + _MOST_OTHERS])
    return f"Other patches that may be the cause: {named}." if named else ""


def _describe_module(runs: ComparedRuns, name: str) -> str:
    kind = runs.kind(name)
    if not name:
        return f"the model itself ({kind})"
    return f"'{name}' ({kind})" if kind else f"'{name}'"


def _tables(failure: Failure, runs: ComparedRuns, divergence: Divergence) -> list[Table]:
    """All figures; those of the direction in which the runs part first."""
    tensors = _tensors(failure)
    forward = _layers(f"{failure.title}: {LAYERS}", runs, runs.forward())
    backward = _layers(f"{failure.title}: {BACKWARD}", runs, runs.backward())
    return [tensors, backward, forward] if divergence.is_backward else [tensors, forward, backward]


def _tensors(failure: Failure) -> Table:
    right = [difference for difference in failure.differences if difference.is_right]
    rows = tuple(map(_row, sorted([*failure.wrong, *right], key=_place)))
    return Table(f"{failure.title}: {TENSORS}", ("tensor", *_COLUMNS), rows)


def _place(difference: Difference) -> tuple[bool, int]:
    """What differs comes first, and of that the loss, then outputs, then gradients."""
    kind = 0 if difference.name == LOSS else 2 if difference.name.startswith("gradient ") else 1
    return difference.is_right, kind


def _layers(title: str, runs: ComparedRuns, differences: Sequence[Difference]) -> Table:
    rows = [(d.name or WHOLE, runs.kind(d.name), *_row(d)[1:]) for d in differences]
    return Table(title, ("module", "class", *_COLUMNS), tuple(rows))


def _row(difference: Difference) -> tuple[str, ...]:
    d = difference
    verdict = RIGHT if d.is_right else "differs"
    figures = (f"{value:.2e}" if value else "0" for value in (d.absolute, d.relative, d.allowed))
    return (d.name, d.shape, d.dtype, *figures, verdict)
