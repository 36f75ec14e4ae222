"""What a matrix of releases finds out: plain data, which every front end prints, sends or saves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from patchgen_core.errors import Location, Problem

State = Literal["ok", "cosmetic", "changed", "breaks", "absent"]
"""What a version is to a config or patch, against the version that its generated file is based on: ``absent`` when
that version has no such model yet, or no more."""

STATES: tuple[State, ...] = ("breaks", "absent", "changed", "cosmetic", "ok")
"""From the worst on."""


@dataclass(frozen=True)
class Cell:
    """A config, or a patch of one, against one version.

    Attributes:
        reasons: why, a line each, as far as the problems do not say it; empty for ``ok``.
        problems: what fails there, with the line in the config.
    """

    version: str
    state: State
    reasons: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CellRow:
    """Something against all versions, with a cell for each in their order.

    Attributes:
        first_broken: the first version after one that works in which it breaks; empty for none. It may lie between
            two versions of the matrix.
        last_working: the last version before ``first_broken``; empty for none.
        is_exact: whether all releases between these two, and between the two below, are known not to exist; without
            a network they may.
        first_working: the first version after one that breaks in which it works; empty for none.
        last_broken: the last version before ``first_working``; empty for none.
        reasons: why it breaks in ``first_broken``; where that is empty, in ``last_broken``.
    """

    cells: tuple[Cell, ...]
    first_broken: str = ""
    last_working: str = ""
    is_exact: bool = True
    first_working: str = ""
    last_broken: str = ""
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class PatchRow(CellRow):
    """A patch against all versions."""

    kind: str
    target: str
    location: Location


@dataclass(frozen=True)
class MatrixRow(CellRow):
    """A config against all versions, whose cells are the worst of its patches and of what concerns the whole module;
    ``reasons`` are those that do not concern its patches. The rest is as for :class:`ConfigVerdict`.

    Attributes:
        base: the version that its generated file is based on; that of what is installed where none says it; empty
            when neither is there.
    """

    config: str
    path: str
    line: int
    module: str
    base: str
    patches: tuple[PatchRow, ...] = ()
    notes: tuple[str, ...] = ()

    def count(self, column: int) -> int:
        """How many patches, and problems beside them, are as the cell of a column says."""
        cell = self.cells[column]
        patched = {problem for patch in self.patches for problem in patch.cells[column].problems}
        others = sum(problem not in patched for problem in cell.problems)
        return sum(patch.cells[column].state == cell.state for patch in self.patches) + others


@dataclass(frozen=True)
class MatrixReport:
    """Configs, by name, against versions in ascending order; the rest is as for :class:`UpgradeReport`.

    Attributes:
        tried: the versions that were looked at beside ``versions``, to find where something breaks first.
    """

    distribution: str
    versions: tuple[str, ...]
    rows: tuple[MatrixRow, ...]
    skipped: tuple[str, ...] = ()
    failed: tuple[Problem, ...] = ()
    tried: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 when no config breaks in the newest version, 1 when one does, 2 when a config cannot be loaded."""
        if self.failed:
            return 2
        return int(any(row.cells and row.cells[-1].state in ("breaks", "absent") for row in self.rows))
