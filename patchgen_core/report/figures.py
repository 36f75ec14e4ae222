"""Tables of figures, as a terminal, a log and Markdown show them, and errors by layer as numbers, for plots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from patchgen_core.checks.result import BACKWARD, LAYERS, RIGHT, TENSORS, Table
from patchgen_core.report.markdown import details, table_head, table_row

_MOST = {TENSORS: 12, LAYERS: 8}
_MOST_OTHERS = 12
_BEFORE = 3
"""How many rows that show nothing wrong stand above the first that does."""
_DISPENSABLE = ("class", "dtype", "shape", "absolute")
"""Columns to leave out, in this order, where a terminal is too narrow."""
_NARROWEST = 24
_GAP = "  "


@dataclass(frozen=True)
class Cut:
    """The rows of a table that are shown, and how many more there are above and below."""

    rows: tuple[tuple[str, ...], ...]
    above: int = 0
    below: int = 0


def is_wrong(table: Table, row: Sequence[str]) -> bool:
    """Whether a row of a table of verdicts shows something wrong."""
    return table.columns[-1] == "verdict" and row[-1] != RIGHT


def rows_summary(table: Table) -> str:
    """How many rows there are, and of verdicts how many differ."""
    wrong = sum(is_wrong(table, row) for row in table.rows)
    has_verdict = table.columns[-1:] == ("verdict",)
    return f"{wrong} of {len(table.rows)} differ" if has_verdict else f"{len(table.rows)} rows"


def cut_table(table: Table, is_whole: bool) -> Cut:
    """The rows around the first that shows something wrong, or all."""
    kind = table.title.rpartition(": ")[2].partition(",")[0]
    most = _MOST.get(kind, _MOST_OTHERS)
    count = len(table.rows)
    if is_whole or count <= most + 1:  # a line that says "1 more" is as long
        return Cut(table.rows)
    first = next((number for number, row in enumerate(table.rows) if is_wrong(table, row)), 0)
    start = max(0, min(first - _BEFORE, count - most))
    return Cut(table.rows[start : start + most], start, max(0, count - start - most))


def table_text(table: Table, width: int | None, is_whole: bool) -> Text:
    """A table as aligned lines, its title above.

    In a terminal of ``width`` columns, columns of the table that have no room are left out, then the first one is
    shortened in its middle; None is for as wide as it is.
    """
    visible_table = cut_table(table, is_whole)
    columns, rows = table.columns, visible_table.rows
    if width is not None:
        columns, rows = _fit_width(columns, rows, width)
    widths = _widths(columns, rows)
    text = Text(f"{table.title}\n", "bold")
    text.append(f"{_line(columns, columns, widths)}\n", "dim")
    if visible_table.above:
        text.append(f"  ... {visible_table.above} above\n", "dim")
    for row, whole in zip(rows, visible_table.rows):
        text.append(f"{_line(row, columns, widths)}\n", "red" if is_wrong(table, whole) else "dim")
    if visible_table.below:
        text.append(f"  ... {visible_table.below} below\n", "dim")
    if visible_table.above or visible_table.below:
        text.append(
            f"  {len(visible_table.rows)} of {len(table.rows)} shown: -v or --patchgen-report shows all\n", "cyan"
        )
    text.rstrip()
    return text


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(cell_len(cell) for cell in cells) for cells in zip(columns, *rows)]


def _line(row: Sequence[str], columns: Sequence[str], widths: Sequence[int]) -> str:
    """Cells side by side, figures to the right."""
    cells = []
    for cell, column, width in zip(row, columns, widths):
        space = " " * (width - cell_len(cell))
        cells.append(space + cell if column in ("absolute", "relative", "allowed") else cell + space)
    return ("  " + _GAP.join(cells)).rstrip()


def _fit_width(
    columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...], width: int
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """A table no wider than a width, as far as it can be."""
    for name in _DISPENSABLE:
        if name not in columns or _total(columns, rows) <= width:
            continue
        at = columns.index(name)
        if not any(" instead of " in row[at] for row in rows):
            columns = columns[:at] + columns[at + 1 :]
            rows = tuple(row[:at] + row[at + 1 :] for row in rows)
    over = _total(columns, rows) - width
    if over > 0:
        room = max(_NARROWEST, _widths(columns, rows)[0] - over)
        rows = tuple((shorten(row[0], room), *row[1:]) for row in rows)
    return columns, rows


def _total(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    return sum(_widths(columns, rows)) + len(_GAP) * len(columns)


def shorten(name: str, width: int) -> str:
    """A name without its middle when it is longer than a width; its end tells more than its beginning."""
    if cell_len(name) <= width:
        return name
    tail = (width - 1) * 2 // 3
    return f"{name[: width - 1 - tail]}…{name[-tail:]}"


def table_markdown(table: Table, is_whole: bool = True) -> list[str]:
    """A table as lines of Markdown, folded away."""
    visible_table = cut_table(table, is_whole)
    lines = table_head(table.columns)
    for row in visible_table.rows:
        cells = [f"`{cell}`" if number == 0 and "`" not in cell else cell for number, cell in enumerate(row)]
        lines.append(table_row([*cells[:-1], f"**{row[-1]}**"] if is_wrong(table, row) else cells))
    if visible_table.above or visible_table.below:
        lines += ["", f"{visible_table.above} rows above and {visible_table.below} below are left out here."]
    return details(f"{table.title} ({rows_summary(table)})", lines)


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
