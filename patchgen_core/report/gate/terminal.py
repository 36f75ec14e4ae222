"""A run of the gate as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchgen_core.report.gate.report import GateReport
from patchgen_core.report.gate.table import gate_rows

if TYPE_CHECKING:
    from rich.console import Console


def print_gate(console: Console, report: GateReport, verbose: bool = False) -> None:
    """Print configs against checks, as wide as it must be. Without ``verbose`` those that are clean share one row."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("config", *report.checks):
        table.add_column(name, overflow="fold")
    for row in gate_rows(report, verbose):
        cells = ((row.config, "dim" if row.is_count else ""), *row.cells)
        table.add_row(*(Text(text, style) for text, style in cells))
    if not table.row_count:
        return
    with console.capture() as capture:
        console.print(table)
    console.out(*(line.rstrip(" ") for line in capture.get().splitlines()), sep="\n", highlight=False)


def gate_lines(report: GateReport, verbose: bool = False) -> list[str]:
    """The lines that :func:`print_gate` prints, without colours; made without rich."""
    rows = [[row.config, *(text for text, _ in row.cells)] for row in gate_rows(report, verbose)]
    if not rows:
        return []
    rows.insert(0, ["config", *report.checks])
    widths = [max(map(_width, column)) for column in zip(*rows)]
    return ["  ".join(cell + " " * (w - _width(cell)) for cell, w in zip(row, widths)).rstrip(" ") for row in rows]


def _width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
