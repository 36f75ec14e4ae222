"""What a check that runs a model says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from patchgen_core.errors import Problem

TENSORS, LAYERS, BACKWARD = "tensors", "layers", "layers, backward"
"""How the titles of a comparison's tables end."""
RIGHT = "ok"
"""The verdict of a row that shows nothing wrong."""
WHOLE = "(model)"
"""What a table calls the model itself, whose path is empty."""


@dataclass(frozen=True)
class Table:
    """Figures that belong together, as text.

    Attributes:
        title: what it shows.
        columns: the heads of its columns.
        rows: its cells, a row each.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class CheckVerdict:
    """The outcome of one check.

    Attributes:
        problems: what is wrong; the check passes when there are none.
        skipped: why the check says nothing here; empty when it does.
        notes: what else a reader should know, a line each.
        figures: measurements by name.
        warnings: what may be wrong, and fails nothing.
        tables: the figures behind the problems.
        unused: allowances that nothing came of.
    """

    problems: tuple[Problem, ...] = ()
    skipped: str = ""
    notes: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[Problem, ...] = ()
    tables: tuple[Table, ...] = ()
    unused: tuple[Problem, ...] = ()


def unpack_table(data: Mapping[str, Any]) -> Table:
    """A table that went through JSON."""
    return Table(data["title"], tuple(data["columns"]), tuple(map(tuple, data["rows"])))
