"""Errors by layer as numbers, for plots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from patchgen_core.checks.tables import BACKWARD, LAYERS, RIGHT, Table
from patchgen_core.report.figures import shorten

_LABEL = 52
_MOST_DECADES = 18


@dataclass(frozen=True)
class Layer:
    """A row of a table of layers: the module's path, and as a plot has room for it, with the relative error, which is
    not finite for a value that is no number, and its limit."""

    name: str
    label: str
    error: float
    allowed: float
    is_right: bool


def has_layers(table: Table) -> bool:
    """Whether a table's rows are layers, forward or backward."""
    return table.title.rpartition(": ")[2] in (LAYERS, BACKWARD)


def find_layers(tables: Sequence[Table]) -> Table | None:
    """The first table of layers, forward or backward; of one comparison the one that tells more comes first."""
    return next(filter(has_layers, tables), None)


def layers_of(table: Table) -> list[Layer]:
    """The rows of a table of layers, in their order."""
    return [_layer(dict(zip(table.columns, row))) for row in table.rows]


def _layer(cells: dict[str, str]) -> Layer:
    label = f"{shorten(cells['module'], _LABEL)}  {cells['class']}"
    return Layer(cells["module"], label, float(cells["relative"]), float(cells["allowed"]), cells["verdict"] == RIGHT)


def decades(layers: Sequence[Layer]) -> tuple[int, int]:
    """The exponents of the powers of ten around all figures, for a logarithmic axis."""
    figures = [f for layer in layers for f in (layer.error, layer.allowed) if f > 0 and math.isfinite(f)] or [1.0]
    high = math.ceil(math.log10(max(figures)) + 0.01)
    return max(math.floor(math.log10(min(figures))) - 1, high - _MOST_DECADES), high
