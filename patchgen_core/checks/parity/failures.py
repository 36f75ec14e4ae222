"""What a comparison that fails tells: the worst tensors, where the models part, and the patches that lie there."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.checks.parity.divergence import Blame, Runs, find_blame, find_suspects, fresh_lines, place_of
from patchgen_core.checks.parity.findings import excerpt_at, lines_of
from patchgen_core.checks.parity.request import ParityRequest, PatchedCode
from patchgen_core.checks.parity.tolerances import Allowed
from patchgen_core.checks.tables import BACKWARD, LAYERS, RIGHT, TENSORS, WHOLE, Table
from patchgen_core.errors import Problem, display_path
from patchgen_core.files import read_text
from patchgen_core.models.execution import Reached
from patchgen_core.models.model_run import Run
from patchgen_core.models.run_comparison import Difference

_COLUMNS = ("shape", "dtype", "absolute", "relative", "allowed", "verdict")
_ASKS = re.compile(r"\bif \w+\.(has_kernel|use_eager_impl|use_non_eager_impl|bound_kernel)\b.*:$")
_CHANGES = "It keeps something from one run to the next, or is not the same every time: no module can be named."
_MOST_OTHERS = 3
_MOST_LINES = 8
_MOST_FRAMES = 4


@dataclass(frozen=True)
class Failure:
    """A batch of which a patched model computes something else.

    Attributes:
        head: name of the model's class.
        batch: name of the batch.
        dtype: what it ran in.
        allowed: what was allowed.
        differences: of all tensors.
        patched, eager, reference: the runs; the reference is None where bits were compared.
        is_again: whether the model was wrong a second time, when the layers of these runs were kept.
    """

    head: str
    batch: str
    dtype: str
    allowed: Allowed
    differences: Sequence[Difference]
    patched: Run
    eager: Run
    reference: Run | None
    is_again: bool = True

    @property
    def title(self) -> str:
        """Which comparison it is."""
        return f"{self.head}, batch '{self.batch}', {self.dtype}"

    @property
    def wrong(self) -> list[Difference]:
        """What is not right, worst first."""
        bad = [difference for difference in self.differences if not difference.is_right]
        return sorted(bad, key=lambda d: (-d.excess, -d.relative))


def explain(failure: Failure, request: ParityRequest, reached: Mapping[str, Reached]) -> tuple[Problem, list[Table]]:
    """What to tell of a failure: the problem, at the declaration of the patch to look at first, and its figures."""
    if not failure.is_again:
        message = f"{failure.head} parts from Hugging Face eager, and agrees when the same batch is run again"
        hint = "\n  ".join([*_figures(failure), _CHANGES])
        return Problem(message, request.declared, hint, excerpt_at(request.declared)), [_tensors(failure)]
    runs = Runs(failure.patched, failure.eager, failure.reference, failure.allowed.multiple)
    blame = find_blame(runs, failure.differences)
    asking = _asking(request.path)
    suspects = find_suspects(blame, request.patches, reached, asking)
    first = suspects[0] if suspects else None
    place = place_of(blame, reached[first.target] if first else None)
    named = f": look at the patch of '{first.target}'" if first else ", where no patch runs"
    message = f"{failure.head} parts from Hugging Face eager {_direction(blame)}{_module(runs, place)}{named}"
    location = first.declared if first else request.declared
    lines = [*_figures(failure), _story(runs, blame, failure.wrong[0]), _others(suspects[1:])]
    hint = "\n  ".join(filter(None, lines))
    shown = lines_of(request.path, fresh_lines(first, reached[first.target], asking)[:_MOST_LINES]) if first else None
    return Problem(message, location, hint, excerpt_at(location), generated=shown), _tables(failure, runs, blame)


def _direction(blame: Blame) -> str:
    return "going backward in " if blame.is_backward else "in "


def _asking(path: str) -> set[int]:
    """The lines of a generated module that ask whether a slot has a kernel."""
    lines = (read_text(Path(path)) or "").split("\n")
    return {number for number, line in enumerate(lines, 1) if _ASKS.search(line)}


def _figures(failure: Failure) -> Iterator[str]:
    worst, count = failure.wrong[0], len(failure.differences)
    said = f"Batch '{failure.batch}', {failure.dtype}: {len(failure.wrong)} of {count} tensors differ"
    yield f"{said}, allowed {failure.allowed}."
    yield f"The worst: {worst.name}{_said(worst)}."


def _said(worst: Difference) -> str:
    if worst.shape.endswith("none") or " instead of " in worst.shape:
        return f" is {worst.shape}"
    if " instead of " in worst.dtype:
        return f" is {worst.dtype}"
    limit = f", allowed {worst.allowed:.1e}" if worst.allowed else ""
    return f", relative error {worst.relative:.1e}{limit}"


def _story(runs: Runs, blame: Blame, worst: Difference) -> str:
    """Where it begins."""
    if not blame.is_backward:
        after = f", right after '{blame.after}', where both agree" if blame.after else ""
        return f"The first output that differs is that of {_module(runs, blame.first)}{after}."
    if blame.first:
        after = f", coming from '{blame.after}', where both agree" if blame.after else ""
        where = _module(runs, blame.first)
        return f"Forward agrees. The first gradient that differs is that by the output of {where}{after}."
    if blame.parameter:
        return f"Forward agrees, and so do the gradients that come there; that of '{blame.parameter}' does not."
    return f"All outputs and their gradients agree: look at what makes {worst.name}."


def _others(suspects: Sequence[PatchedCode]) -> str:
    named = "; ".join(f"{patch.target} ({patch.declared})" for patch in suspects[:_MOST_OTHERS])
    return f"Other patches that may lead there: {named}." if named else ""


def _module(runs: Runs, name: str) -> str:
    kind = runs.kind(name)
    if not name:
        return f"the model itself ({kind})"
    return f"'{name}' ({kind})" if kind else f"'{name}'"


def _tables(failure: Failure, runs: Runs, blame: Blame) -> list[Table]:
    """All figures; those of the direction in which the runs part first."""
    tensors = _tensors(failure)
    forward = _layers(f"{failure.title}: {LAYERS}", runs, runs.forward())
    backward = _layers(f"{failure.title}: {BACKWARD}", runs, runs.backward())
    return [tensors, backward, forward] if blame.is_backward else [tensors, forward, backward]


def _tensors(failure: Failure) -> Table:
    right = [difference for difference in failure.differences if difference.is_right]
    rows = tuple(map(_row, [*failure.wrong, *right]))
    return Table(f"{failure.title}: {TENSORS}", ("tensor", *_COLUMNS), rows)


def _layers(title: str, runs: Runs, differences: Sequence[Difference]) -> Table:
    rows = [(d.name or WHOLE, runs.kind(d.name), *_row(d)[1:]) for d in differences]
    return Table(title, ("module", "class", *_COLUMNS), tuple(rows))


def _row(difference: Difference) -> tuple[str, ...]:
    d = difference
    verdict = RIGHT if d.is_right else "differs"
    figures = (f"{value:.2e}" if value else "0" for value in (d.absolute, d.relative, d.allowed))
    return (d.name, d.shape, d.dtype, *figures, verdict)


def raised(where: str, error: Exception, request: ParityRequest) -> Problem:
    """The problem of a patched model that raises, at the patch whose code was running."""
    said = " ".join(str(error).split())
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == request.path]
    shown = "\n".join(f"{display_path(f.filename)}:{f.lineno}, in {f.name}: {f.line}" for f in frames[-_MOST_FRAMES:])
    running = [
        patch
        for frame in reversed(frames)
        for patch in request.patches
        if any(first <= (frame.lineno or 0) <= last for first, last in patch.lines)
    ]
    location = running[0].declared if running else request.declared
    hint = f"The patch of '{running[0].target}' was running." if running else ""
    return Problem(f"{where}: the patched model raises {type(error).__name__}: {said}", location, hint, shown)
