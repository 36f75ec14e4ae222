"""Whose code makes two runs part: the module in which right values become wrong ones, and the patches that ran there.

Forward, that is the module whose output differs although what it is given agrees. Backward it is the one whose output
gets the right gradient and that gives wrong ones to its parameters or to the module before it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchgen_core.checks.parity.request import PatchedCode
from patchgen_core.models.execution import Execution
from patchgen_core.models.model_run import GRADIENT, Run
from patchgen_core.models.modes_training import CALLS, RUNS
from patchgen_core.models.run_comparison import ComparedRuns, Difference, path_of

_FAR = 1000
_NOTHING = Execution()


@dataclass(frozen=True)
class Divergence:
    """Where two runs part.

    Attributes:
        places: paths of the modules whose code is to blame, the likeliest first.
        first: name of the first module, in the order of the direction, whose value differs; empty for none.
        after: the last one before it where both agree; empty for none.
        is_backward: whether all that is computed forward agrees.
        parameter: the first parameter whose own module gets the right gradient and gives it a wrong one; or
            empty.
        right: paths of modules that were seen to do right.
        writes: whether the first module writes into its inputs, which upstream's does not.
    """

    places: tuple[str, ...]
    first: str = ""
    after: str = ""
    is_backward: bool = False
    parameter: str = ""
    right: frozenset[str] = frozenset()
    writes: bool = False


def find_divergence(runs: ComparedRuns, differences: Sequence[Difference]) -> Divergence:
    """Where the runs part, of whose differences at least one is not right."""
    wrong = [difference.name for difference in differences if not difference.is_right]
    outputs = [name for name in wrong if not name.startswith(GRADIENT)]
    is_lost = any(name in runs.eager.values and runs.patched.values.get(name) is None for name in outputs)
    forward = find_forward_divergence(runs, is_lost=is_lost)
    if forward is not None and (forward.first or outputs):
        return forward
    return _backward(runs, wrong)


def find_forward_divergence(runs: ComparedRuns, *, is_lost: bool = False) -> Divergence | None:
    """Where what is computed forward parts, or, if ``is_lost``, an output gets lost; None where nothing does, as far
    as the patched model came."""
    first, after = runs.find_first(is_lost=is_lost) or (None, "")
    done = [name for name in runs.eager.layers if name in runs.patched.layers]
    before = done[: done.index(first)] if first is not None else done
    writer = next((name for name in runs.patched.written if name not in runs.eager.written), None)
    if writer is not None and (writer in before or writer == first):
        return Divergence((path_of(writer),), writer, writes=True)
    if first is None:
        return None
    return Divergence((_holder(runs, first),), first, after, right=frozenset(map(path_of, before)))


def find_unfinished(runs: ComparedRuns) -> Divergence | None:
    """Where a module that does not come to its end is given something else than upstream's; None where it is not."""
    entered = [name for name in runs.patched.layer_inputs if name not in runs.patched.layers]
    if not entered or entered[-1] not in runs.eager.layer_inputs:
        return None
    holder = _holder(runs, entered[-1])
    return Divergence((holder,), entered[-1]) if holder != path_of(entered[-1]) else None


def _holder(runs: ComparedRuns, name: str) -> str:
    """The innermost module, from one outward, that is given what agrees."""
    path, _, call = name.partition(" (")
    for above in _outward(path):
        place = f"{above} ({call}" if call and f"{above} ({call}" in runs.eager.layer_inputs else above
        if place in runs.eager.layer_inputs and runs.inputs_agree(place):
            return above
    return ""


def _outward(path: str) -> Iterator[str]:
    """A path and the ones that hold it, the model's own, which is empty, last."""
    while path:
        yield path
        path = path.rpartition(".")[0]
    yield ""


def _backward(runs: ComparedRuns, wrong: Sequence[str]) -> Divergence:
    """Follow the gradients from the loss back."""
    parameters = [name.removeprefix(GRADIENT) for name in wrong if name.startswith(GRADIENT)]
    after = ""
    walk = runs.backward()
    counted = next((name.removeprefix(RUNS) for name in wrong if name.startswith(RUNS)), None)
    if counted is not None:
        return Divergence((counted,), is_backward=True)
    uncalled = next((name.removeprefix(CALLS) for name in wrong if name.startswith(CALLS)), None)
    if uncalled is not None:  # by what holds the list of layers
        return Divergence((uncalled.rpartition(".")[0].rpartition(".")[0],), is_backward=True)
    for number, difference in enumerate(walk):
        name = difference.name
        if not difference.is_right:
            places = _between(path_of(after), path_of(name), runs.eager)
            return Divergence(places, name, after, True, right=_modules_that_did_right(walk[: number + 1]))
        own = next((p for p in parameters if name and p.rpartition(".")[0] == path_of(name)), "")
        if own:
            return Divergence((path_of(name),), "", name, True, own, _modules_that_did_right(walk[: number + 1]))
        after = name
    own = parameters[0] if parameters else ""
    return Divergence((own.rpartition(".")[0],), "", after, True, own, _modules_that_did_right(walk))


def _modules_that_did_right(walk: Sequence[Difference]) -> frozenset[str]:
    """The modules that got the right gradient and gave one, going back until the last step, where it went wrong."""
    paths = [path_of(difference.name) for difference in walk]
    right = set()
    for number, path in enumerate(paths[:-1]):
        following = next((n for n in range(number + 1, len(paths)) if not paths[n].startswith(f"{path}.")), None)
        if path and following is not None and following < len(paths) - 1:
            right.add(path)
    return frozenset(right)


def _between(after: str, first: str, run: Run) -> tuple[str, ...]:
    """The modules whose code leads from one output to another: the later one, and outward to what holds both."""
    around = set(_outward(first))
    between = []
    for path in _outward(after):
        if path in run.layer_inputs:
            between.append(path)
        if path in around and path != after:
            break
    return tuple(between)


def find_suspects(
    divergence: Divergence,
    patches: Sequence[PatchedCode],
    executions: Mapping[str, Execution],
    slot_checks: Container[int] = (),
) -> list[PatchedCode]:
    """The patches that ran where runs part, the one to look at first first.

    Those that ran in the very module come first, then those inside of it, then those around it. Of equals the one of
    which a line ran that upstream does not have, and that did no right elsewhere; of these the one of which most did
    not run in batches in which the models agree. Patches that ran none of the lines that they add come last of all.
    ``slot_checks`` are lines that only ask whether a slot has a kernel.
    """
    ranked = []
    for patch in patches:
        ran = executions.get(patch.target, _NOTHING)
        steps, _ = _nearest(divergence, ran)
        if steps >= _FAR:
            continue
        did_right = bool(ran.modules & divergence.right)
        fresh = fresh_lines(patch, ran, slot_checks)
        is_own = bool(fresh) or not patch.lines
        seen = {line for _, line in ran.right_lines}
        share_seen = sum(line in seen for line in fresh) / max(1, len(fresh))
        only_made = not ran.functions - {"__init__"}
        rank = (did_right, steps) if divergence.is_backward else (steps, did_right)
        is_idle = bool(patch.fresh) and not fresh
        ranked.append((is_idle, *rank, only_made, not is_own, share_seen, patch.declared.line, patch))
    return [row[-1] for row in sorted(ranked, key=lambda row: row[:-1])]


def suspected_module(divergence: Divergence, execution: Execution | None) -> str:
    """The module to name: of those to blame the one that a patch ran nearest to, or the likeliest one."""
    return _nearest(divergence, execution)[1] if execution is not None else divergence.places[0]


def _nearest(divergence: Divergence, execution: Execution) -> tuple[int, str]:
    """How far what ran is from the places to blame, and from which it is that."""
    steps = [
        (number + _distance(place, module), number, place)
        for number, place in enumerate(divergence.places)
        for module in execution.modules
    ]
    distance, _, place = min(steps, default=(_FAR, 0, ""))
    return distance, place


def fresh_lines(patch: PatchedCode, execution: Execution, slot_checks: Container[int] = ()) -> list[int]:
    """The lines of a patch that ran and that upstream does not have, without those that only ask."""
    ran = {line for _, line in execution.lines}
    return [line for line in patch.fresh if line in ran and line not in slot_checks]


def _distance(place: str, module: str) -> int:
    """How far the code of a module is from a place: nearer inside of it than around it."""
    if module == place:
        return 0
    if not place or module.startswith(f"{place}."):
        return 1 + module.count(".") - place.count(".") + (not place)
    if not module or place.startswith(f"{module}."):
        return 20 * (place.count(".") - module.count(".") + (not module))
    return _FAR
