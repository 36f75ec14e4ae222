"""A run of the gate as text for a terminal: the table, and what is said last, whichever front end ran it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen_core.checks.result import BAD, STATUS_STYLE, CheckResult
from patchgen_core.errors import Problem, display_path
from patchgen_core.report.gate.report import GateReport, find_worst, is_config
from patchgen_core.report.words import ABSORB, age, quantity

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Row:
    """A config, or how many have nothing to say; what came of each check, with its style."""

    config: str
    cells: tuple[tuple[str, str], ...]
    is_count: bool = False


def gate_rows(report: GateReport, verbose: bool = False) -> Iterator[Row]:
    """A row for each config that has something to say, and one for all others; with ``verbose`` one for each.
    Configs of one name have their paths in it."""
    by_config = report.by_config()
    names = Counter(config for config, _ in by_config)
    count, clean = 0, []
    for (config, path), of_config in by_config.items():
        results = {check: find_worst(of_check) for check, of_check in groupby(of_config, key=lambda r: r.check)}
        if verbose or any(result.status != "clean" or result.warnings for result in results.values()):
            count += 1
            name = config if names[config] == 1 else f"{config} ({display_path(path)})"
            yield Row(name, tuple(_cell(results.get(check)) for check in report.checks))
        elif any(map(is_config, of_config)):
            clean.append(results)
    if clean:
        counts = (sum(check in results for results in clean) for check in report.checks)
        cells = tuple((f"{number} ok", "green") if number else ("-", "dim") for number in counts)
        yield Row(f"{len(clean)} {'more' if count else 'in all'}", cells, is_count=True)


def _cell(result: CheckResult | None) -> tuple[str, str]:
    if result is None:
        return "-", "dim"
    causes = ", ".join(dict.fromkeys(cause.kind for cause in result.causes))
    text: str = "ok" if result.status == "clean" else result.status
    if causes and result.status in ("fixed", "failed", "drifted"):
        text = f"{text}: {causes}"
    if result.warnings and result.status not in BAD:
        text = f"{text}, {quantity(len(result.warnings), 'warning')}"
    return text, STATUS_STYLE[result.status]


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
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


Line = tuple[tuple[str, str], ...]
"""Parts of a line, each with its style."""


@dataclass(frozen=True)
class Commands:
    """What a user types to rewrite what drifted, and to remove orphans."""

    fix: str
    prune: str


def change_lines(report: GateReport) -> Iterator[Line]:
    """The files that were rewritten, copies of those that had been edited by hand, and the files that were removed."""
    for result in report.results:
        for path in result.written:
            yield ("rewrote  ", "yellow"), (display_path(path), "")
        for path in result.copies:
            yield ("kept     ", "yellow"), (f"{display_path(path)}: a copy of the hand edits", "")
        for path in result.removed:
            yield ("removed  ", "yellow"), (display_path(path), "")


def summary_line(report: GateReport) -> Line:
    """How many configs and checks came to what."""
    return ((report.summary(), "green" if report.is_green else "red"),)


def file_lines(path: Path | None, pictures: Sequence[str] = (), no_picture: str = "") -> Iterator[Line]:
    """The report file that was written, and its pictures or why there are none."""
    if path is None:
        return
    yield ((f"report: {display_path(path)}", ""),)
    for picture in pictures:
        yield ((f"picture: {display_path(picture)}", ""),)
    if no_picture:
        yield ((no_picture, "yellow"),)


def mending_lines(report: GateReport, commands: Commands) -> Iterator[Line]:
    """What to run next."""
    if any(result.status == "drifted" for result in report.results):
        yield ((f"Run '{commands.fix}' to rewrite what drifted.", "cyan"),)
        if any(cause.kind == "edited by hand" for result in report.bad for cause in result.causes):
            yield ((ABSORB, "cyan"),)
    if report.codes:
        yield ((f"Run 'patchgen rule {' '.join(report.codes)}' for an explanation of the findings.", "cyan"),)
    if any(cause.kind == "orphan" for result in report.bad for cause in result.causes):
        yield ((f"Run '{commands.prune}' to remove orphans.", "cyan"),)


def warnings_of(report: GateReport) -> list[Problem]:
    """The warnings of what is green, each once: implementations of a config say the same."""
    problems = (problem for result in report.results if result.status not in BAD for problem in result.warnings)
    return list(dict.fromkeys(problems))


def held_of(report: GateReport) -> list[Problem]:
    """What baselines hold back of what is green, each once."""
    problems = (problem for result in report.results if result.status not in BAD for problem in result.held)
    return list(dict.fromkeys(problems))


def print_lines(console: Console, lines: Iterable[Line]) -> None:
    """Print lines, each as long as it is."""
    from rich.text import Text

    for line in lines:
        console.print(Text.assemble(*line), soft_wrap=True)


def print_closing(
    console: Console,
    report: GateReport,
    lines: Sequence[Line],
    *,
    table: bool,
    verbose: bool,
    problems: Sequence[Problem],
) -> None:
    """Print the table, lines, warnings, with ``verbose`` notes, and what is wrong with the run itself."""
    from rich.text import Text

    from patchgen_core.report.terminal import print_problems

    if table:
        print_gate(console, report, verbose)
    print_lines(console, lines)
    print_problems(console, warnings_of(report), "warning")
    print_problems(console, held_of(report) if verbose else (), "held back")
    for result in report.results if verbose else ():
        about = f"{result.config}: {result.name}" if result.check == "parity" else result.config
        for note in result.notes:
            console.print(Text(f"{about}: {note}", "dim"), soft_wrap=True)
        if result.made:
            console.print(Text(f"{result.config}: {result.name}: kept from {age(result.made)}", "dim"), soft_wrap=True)
    print_problems(console, problems)
