"""What a release is to a config and its patches: ok, cosmetic, changed, breaks, absent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patchgen_core.errors import Problem
from patchgen_core.upgrade.matrix.compatibility import Compatibility
from patchgen_core.upgrade.matrix.results import STATES, Cell, State
from patchgen_core.upgrade.release_project import Generation, PatchProblem
from patchgen_core.upgrade.results import Finding

BROKEN: tuple[State, ...] = ("breaks", "absent")
"""The states in which a config or patch does not work."""

NO_MODULE = "it has no such module"
"""Why a config is absent."""

_ALIKE = ("unchanged", "added")
_PLACE = re.compile(r" in [\w.-]+\.py, line \d+\b")
_LABEL = re.compile(r"^\w+ [\w.]+: ")


@dataclass(frozen=True)
class ConfigCells:
    """A config and its patches, in declared order, against one version; `general` is what fails beside the patches."""

    config: Cell
    patches: tuple[Cell, ...]
    general: tuple[Problem, ...] = ()


def judge(version: str, new: Compatibility, base: Compatibility | None, names: Sequence[str]) -> ConfigCells:
    """What a version is to a config, apart from what is wrong with the config's base as well, if that can be tried."""
    if new.generation is None:
        cell = Cell(version, "absent", (NO_MODULE,))
        return ConfigCells(cell, tuple(cell for _ in names))
    blamed = [*new.generation.problems, *_new_errors(new.generation, base.generation if base is not None else None)]
    own = [[entry.problem for entry in blamed if entry.patch == number] for number in range(len(names))]
    patches = tuple(
        Cell(version, "breaks", problems=tuple(problems)) if problems else _changed(version, target)
        for problems, target in zip(own, new.targets)
    )
    general = tuple(entry.problem for entry in blamed if entry.patch is None)
    states: list[State] = [cell.state for cell in patches]
    states += ["breaks"] if general else []
    state: State = min(states, key=STATES.index, default="ok")
    reasons = [
        f"{name}: {reason}" for name, cell in zip(names, patches) for reason in cell.reasons if cell.state == state
    ]
    problems = tuple(entry.problem for entry in blamed)
    return ConfigCells(Cell(version, state, tuple(reasons), problems), patches, general)


def reasons_of(cell: Cell, problems: Iterable[Problem] | None = None) -> tuple[str, ...]:
    """Why a cell is what it is, a line each: in short, and each thing once; of its problems, all by default."""
    failing = (reason_of(problem) for problem in (cell.problems if problems is None else problems))
    return tuple(dict.fromkeys((*failing, *cell.reasons)))


def reason_of(problem: Problem) -> str:
    """A problem in short: without the patch that it is about and the line where the module has it."""
    message = _PLACE.sub("", _LABEL.sub("", problem.message))
    return f"{problem.code} {message}".lstrip()


def _new_errors(new: Generation, base: Generation | None) -> list[PatchProblem]:
    """The errors that the base has not. Of a config that does not generate, those of patches: what is left of it may
    break a rule as a whole."""
    errors = new.new_errors(base)
    return [entry for entry in errors if entry.patch is not None] if new.problems else errors


def _changed(version: str, target: Finding | None) -> Cell:
    is_elsewhere = target is not None and target.kind == "changed elsewhere" and target.risk == "safe"
    if target is None or target.kind in _ALIKE or is_elsewhere:
        return Cell(version, "ok")
    state: State = "cosmetic" if target.kind == "cosmetic" else "changed"
    return Cell(version, state, (f"{target.kind}: {target.detail}" if target.detail else target.kind,))
