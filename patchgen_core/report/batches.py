"""The batches of parity as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from patchgen_core.checks.parity.batch_lines import BatchLine

_COLUMNS = ("batch", "passes", "why")


def batches_data(config: str, lines: Sequence[BatchLine]) -> dict[str, Any]:
    """The batches of a config as JSON types."""
    return {"config": config, "batches": [asdict(line) for line in lines]}


def print_batches(console: Console, config: str, lines: Sequence[BatchLine]) -> None:
    """Print a table for each head: on a terminal as wide as that is, in a pipe a line for each batch."""
    for head, of_head in groupby(lines, key=lambda line: line.head):
        console.print(Text.assemble((f"{config}: ", ""), (head, "bold")), soft_wrap=True)
        rows = [_row(line) for line in of_head]
        if not console.is_terminal:
            for row in rows:
                console.print(Text(f"  {row[0]}: {row[1]}  ({row[2]})"), soft_wrap=True)
            continue
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for name in _COLUMNS:
            table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)


def _row(line: BatchLine) -> tuple[str, str, str]:
    if line.refused:
        return line.batch or "none", line.refused, "upstream's model does not take it"
    passed = ": ".join(filter(None, [line.about, line.inputs]))
    return line.batch, passed, f"{line.reason}; {', '.join(line.dtypes)}"
