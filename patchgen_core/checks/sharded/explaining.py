"""What is told of ranks that come to something else than one process, or to nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen_core.checks.parity.divergence import Divergence, find_divergence, find_suspects, suspected_module
from patchgen_core.checks.parity.failures import describe_other_suspects, find_slot_checks, show_fresh_lines
from patchgen_core.checks.parity.findings import excerpt_at, lines_of
from patchgen_core.checks.parity.request import PatchedCode
from patchgen_core.checks.ranks.groups import explain_failure
from patchgen_core.checks.sharded.rank_errors import Origin
from patchgen_core.checks.sharded.request import ShardedRequest
from patchgen_core.checks.sharded.results import MEAN_LOSS_OF, Comparison
from patchgen_core.errors import Location, Problem, list_some, quote_some
from patchgen_core.files import read_text
from patchgen_core.models.model_heads import Head
from patchgen_core.models.model_run import GRADIENT
from patchgen_core.models.run_comparison import ComparedRuns, Difference
from patchgen_core.project.meshes import Mesh
from patchgen_core.workers.rank_group import RanksFailed
from patchgen_core.workers.stacks import Frame

_PLAN = "get_parallel_plan"
_OF_PLAN = re.compile(r"\bplacement|\bpattern '.*' of '\w+' matches no parameter")
_NAMES_SHOWN = 3
_CLOSE = 1e-3


def explain_differences(
    head: Head, subject: ShardedRequest, compared: Comparison, layers: Comparison | None
) -> list[Problem]:
    """The problems: what ranks do not agree on, what is not repeated, and what is wrong, which lies at the declaration
    of the patch to look at first."""
    name = f"{head.name} on {subject.mesh.name}"
    problems = [*_explain_unlike(name, compared), *_explain_unrepeated(name, compared)]
    if compared.wrong:
        problems.append(_explain_wrong(name, compared, layers, subject))
    return [replace(problem, location=problem.location or subject.declared) for problem in problems]


def explain_rank_failure(
    failure: RanksFailed, head: Head, subject: ShardedRequest, origin: Origin | None = None
) -> Problem:
    """The problem of ranks that have not answered, at its origin, the patch whose code was running, or the patch of a
    class that the error names."""
    problem = _explain_running(failure, head, subject)
    if origin is None:
        return problem
    hint = "\n  ".join(filter(None, [origin.sentence, problem.hint]))
    return replace(problem, location=origin.patch.declared, hint=hint, target=origin.patch.target)


def _explain_running(failure: RanksFailed, head: Head, subject: ShardedRequest) -> Problem:
    problem = explain_failure(failure, f"training {head.name}", f"{head.name} cannot be trained")
    states = failure.states if failure.rank is None else [failure.states[failure.rank]]
    for frames in [state.frames for state in states if not state.has_answered]:
        running: dict[str, tuple[PatchedCode, Frame]] = {}
        for frame in reversed(frames):
            running.update((patch.target, (patch, frame)) for patch in reversed(_patches_at(frame, subject)))
        if running:
            (patch, frame), *_ = innermost = list(running.values())[::-1]
            others = describe_other_suspects([other for other, _ in innermost])
            hint = f"The patch of '{patch.target}' was running, {Location(frame.file, frame.line)}."
            hint = "\n  ".join(filter(None, [hint, others, problem.hint]))
            lines = lines_of(subject.path, [frame.line]) if subject.text is None else None
            return replace(problem, location=patch.declared, hint=hint, generated=lines, target=patch.target)
    named = _find_named_patch(failure.how, head, subject) if failure.rank is not None else None
    if named is None:
        return replace(problem, location=problem.location or subject.declared)
    hint = f"Look at the patch of '{named.target}'. {problem.hint}".strip()
    return replace(problem, location=named.declared, hint=hint, target=named.target)


def _find_named_patch(text: str, head: Head, subject: ShardedRequest) -> PatchedCode | None:
    """The patch that gives the head's plan, for an error about placements or patterns, or one in a class that a text
    names beside the head, as :func:`parallelize` names one that it refuses."""
    of_plan = [patch for patch in subject.patches if patch.target == f"{head.name}.{_PLAN}"]
    if of_plan and _OF_PLAN.search(text):
        return of_plan[0]
    names = set(re.findall(r"\w+", text)) - {head.name}
    return next((patch for patch in subject.patches if patch.target.partition(".")[0] in names), None)


def _patches_at(frame: Frame, subject: ShardedRequest) -> list[PatchedCode]:
    """The patches in whose code a frame stands: one, or the edits of one target, the nearest first."""
    patches = [patch for patch in subject.patches if frame.file == subject.path and patch.holds(frame.line)]
    return sorted(patches, key=lambda patch: patch.distance_to(frame.line))


def _explain_unlike(name: str, compared: Comparison) -> Iterator[Problem]:
    by_ranks: dict[tuple[int, ...], list[str]] = {}
    for parameter, lacking in compared.unlike.items():
        by_ranks.setdefault(tuple(lacking), []).append(parameter)
    for ranks, parameters in by_ranks.items():
        who = f"rank {ranks[0]} has" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))} have"
        others = "and other ranks have one" if len(parameters) == 1 else "and other ranks have them"
        gradients = "gradient" if len(parameters) == 1 else "gradients"
        yield Problem(f"{name}: {who} no {gradients} of {quote_some(parameters, _NAMES_SHOWN)}, {others}")


def _explain_unrepeated(name: str, compared: Comparison) -> Iterator[Problem]:
    for rank, names in compared.unrepeated.items():
        more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        message = f"{name}: running the same batches twice gives different bits on rank {rank}: {names[0]}{more}"
        yield Problem(
            message, hint="Look for state that is kept from one run to the next, or for an order that is not fixed."
        )


def _explain_wrong(name: str, compared: Comparison, layers: Comparison | None, subject: ShardedRequest) -> Problem:
    wrong = compared.wrong
    values = [d for d in wrong if d.name.startswith(("loss of ", "logits of "))]
    gradients = [d for d in wrong if d.name.startswith(GRADIENT)]
    means = [d for d in wrong if d.name.startswith(MEAN_LOSS_OF)]
    first = values or gradients or means or wrong
    part = _find_parting(layers, wrong, compared.are_means_wrong) if layers is not None else None
    factors = list(_describe_factors(compared, [*values, *gradients] or wrong))
    message = f"{name} differs from one process: {_describe(first[0])}"
    hints = [f"{len(wrong)} of {len(compared.differences)} tensors differ.", *factors]
    if part is None or layers is None:
        return Problem(message, hint="\n  ".join(hints))
    hints.append(part.describe())
    executions = layers.executions
    text = (subject.text if subject.text is not None else read_text(Path(subject.path))) or ""
    slot_checks = find_slot_checks(text)
    suspects = find_suspects(part.divergence, subject.patches, executions, slot_checks)
    if not suspects:
        return Problem(message, hint="\n  ".join(filter(None, hints)))
    patch = suspects[0]
    place = _describe_module(part.runs, suspected_module(part.divergence, executions[patch.target]))
    message = f"{message}, in {place}: look at the patch of '{patch.target}'"
    hint = "\n  ".join(filter(None, [*hints, describe_other_suspects(suspects)]))
    lines = show_fresh_lines(patch, subject.path, executions, slot_checks)
    excerpt = excerpt_at(patch.declared)
    return Problem(message, patch.declared, hint, excerpt, generated=lines, target=patch.target)


def _describe(d: Difference) -> str:
    if d.shape.startswith("none "):
        return f"{d.name} is missing"
    if " instead of " in d.shape:
        return f"{d.name} has the shape {d.shape}"
    return f"{d.name}, relative error {d.relative:.1e}, allowed {d.allowed:.1e}"


def _describe_factors(compared: Comparison, differences: list[Difference]) -> Iterator[str]:
    """A line for each factor by which tensors are too large."""
    by_factor: dict[str, list[str]] = {}
    for difference in differences:
        factor = compared.factor_of(difference)
        if not factor or math.isclose(factor, 1.0, rel_tol=_CLOSE):
            continue
        named = name_factor(factor, compared.mesh)
        if named or difference.shape != "[]":  # one number is always a multiple of another
            by_factor.setdefault(f"{factor:.3g} x {named}".strip(), []).append(difference.name)
    for text, names in by_factor.items():
        yield f"{text} what one process has: {list_some(names, _NAMES_SHOWN)}."


def name_factor(factor: float, mesh: Mesh) -> str:
    """The sizes of a mesh that a factor may be, such as ``(dp_size or ep_size)``; empty for none."""
    sizes = {"dp_size": mesh.dp, "sp_size": mesh.sp, "ep_size": mesh.ep, "the number of ranks": mesh.ranks}
    sizes = {name: size for name, size in sizes.items() if size > 1}
    for form, power in (("{}", 1.0), ("1 / {}", -1.0)):
        names = [name for name, size in sizes.items() if math.isclose(factor, size**power, rel_tol=_CLOSE)]
        if names:
            return f"({form.format(' or '.join(names))})"
    return ""


@dataclass(frozen=True)
class _Parting:
    """Where ranks part from one process, on the first batch on which they do."""

    batch: str
    runs: ComparedRuns
    divergence: Divergence

    def describe(self) -> str:
        """A sentence about the first module; empty where none differs."""
        part = self.divergence
        if not part.is_backward:
            after = f", right after '{part.after}', where both agree" if part.after else ""
            first = _describe_module(self.runs, part.first)
            return f"The first output that differs is from {first}{after}, batch '{self.batch}'."
        if not part.first:
            return ""
        first = _describe_module(self.runs, part.first)
        return f"The first gradient that differs is for the output of {first}, batch '{self.batch}'."


def _find_parting(layers: Comparison, wrong: Sequence[Difference], are_means_wrong: bool) -> _Parting | None:
    """Where ranks part on the first batch on which a module differs; where none does, at the first wrong parameter."""
    every = list(layers.compare_layers())
    is_backward = not are_means_wrong and all(not d.name.startswith(("loss of ", "logits of ")) for d in wrong)
    for batch, runs in every:
        if any(not d.is_right for d in (runs.backward() if is_backward else runs.forward())):
            return _Parting(batch, runs, find_divergence(runs, wrong))
    return _Parting(*every[0], find_divergence(every[0][1], wrong)) if is_backward else None


def _describe_module(runs: ComparedRuns, path: str) -> str:
    kind = runs.kind(path)
    if not path:
        return f"the model itself ({kind})"
    return f"'{path}' ({kind})" if kind else f"'{path}'"
