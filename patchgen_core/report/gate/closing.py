"""What a run of the gate says last, whichever front end ran it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen_core.checks.result import BAD
from patchgen_core.errors import Problem, display_path
from patchgen_core.report.gate.report import GateReport
from patchgen_core.report.gate.terminal import print_gate

if TYPE_CHECKING:
    from rich.console import Console

Line = tuple[tuple[str, str], ...]
"""Parts of a line, each with its style."""


@dataclass(frozen=True)
class Commands:
    """What a user types to rewrite what drifted, and to remove orphans."""

    fix: str
    prune: str


def change_lines(report: GateReport) -> Iterator[Line]:
    """The files that were rewritten and removed."""
    for result in report.results:
        for path in result.written:
            yield ("rewrote  ", "yellow"), (display_path(path), "")
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
    if report.is_mendable:
        yield ((f"Run '{commands.fix}' to rewrite what drifted.", "cyan"),)
    if report.codes:
        yield ((f"Run 'patchgen rule {' '.join(report.codes)}' for what is behind the findings.", "cyan"),)
    if report.has_orphans:
        yield ((f"Run '{commands.prune}' to remove orphans.", "cyan"),)


def warnings_of(report: GateReport) -> list[Problem]:
    """The warnings of what is green, each once: implementations of a config say the same."""
    problems = (problem for result in report.results if result.status not in BAD for problem in result.warnings)
    return list(dict.fromkeys(problems))


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
    for line in lines:
        console.print(Text.assemble(*line), soft_wrap=True)
    print_problems(console, warnings_of(report), "warning")
    for result in report.results if verbose else ():
        about = f"{result.config}: {result.name}" if result.check == "parity" else result.config
        for note in result.notes:
            console.print(Text(f"{about}: {note}", "dim"), soft_wrap=True)
    print_problems(console, problems)
