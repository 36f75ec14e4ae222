"""What one check found out, as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from patchgen_core.checks.result import STATUS_STYLE, CheckResult, Table
from patchgen_core.errors import display_path
from patchgen_core.report.figures import is_wrong, table_text
from patchgen_core.report.terminal import print_diff, print_problems


def verdict_text(result: CheckResult, named: bool = True) -> Text:
    """The status and the causes of a verdict; with ``named``, of which config, and by which check it failed."""
    text = Text()
    if named:
        text = Text.assemble((f"{result.status:<9}", STATUS_STYLE[result.status]), (result.config, "bold"))
        if result.status == "failed":
            text.append(f"  {result.name}")
        indent = "  " if len(result.causes) == 1 else "\n         "
    for number, cause in enumerate(result.causes):
        text.append(f"{indent}{cause}" if named else "\n" * bool(number) + str(cause))
    if result.reason:
        text.append(f"  {result.reason}" if named else result.reason)
    return text


def print_details(
    console: Console, result: CheckResult, verbose: bool = False, folded: bool | None = None, is_whole: bool = True
) -> None:
    """Print what belongs to a verdict: problems and their figures, what upstream changed, the files that differ.

    Args:
        verbose: also say how the config was loaded.
        folded: leave out the middle of long hunks where nobody watches; None for what a terminal gets: unless
            ``verbose``.
        is_whole: print all figures. If not, of several problems that come with figures all but the first are one line
            each, and of the figures those of the first that tell most.
    """
    is_folded = not verbose if console.is_terminal or folded is None else folded
    _print_errors(console, result, is_whole)
    print_problems(console, result.warnings, "warning")
    print_notes(console, result.notes if verbose else ())
    print_problems(console, result.held if verbose else (), "held back")
    if verbose and result.loading == "imported":
        console.print(Text(f"         imported for real: {result.loading_reason}", "dim"), soft_wrap=True)
    for cause in result.causes:
        if cause.upstream_diff:
            console.print(Text("         upstream's own change in the patched code:", "yellow"), soft_wrap=True)
            print_diff(console, cause.upstream_diff, is_folded)
    for file in result.files:
        if result.status == "fixed":
            console.print(Text(f"         wrote {display_path(file.path)}"), soft_wrap=True)
        elif file.missing:
            console.print(Text(f"         {display_path(file.path)} is missing"), soft_wrap=True)
        elif file.path.endswith(".py") or len(result.files) == 1:
            print_diff(console, file.telling, is_folded)
    for path in result.copies:
        console.print(Text(f"         kept a copy of the hand edits: {display_path(path)}"), soft_wrap=True)


def _print_errors(console: Console, result: CheckResult, is_whole: bool) -> None:
    if is_whole or not result.tables:
        print_problems(console, result.errors)
        tables, others = list(result.tables), []
    else:
        first, *others = result.errors
        print_problems(console, [first])
        tables = _main_tables(result.tables)
    if tables:
        _print_tables(console, tables, is_whole)
    if others:
        console.print()
        print_problems(console, [replace(problem, excerpt="", generated=None, hint="") for problem in others])


def _print_tables(console: Console, tables: Iterable[Table], is_whole: bool) -> None:
    width = console.width if console.is_terminal else None
    for table in tables:
        console.print()
        console.print(table_text(table, width, is_whole), soft_wrap=True)


def _main_tables(tables: Sequence[Table]) -> list[Table]:
    """Of the first thing that tables are about, those in which something is wrong, one of each kind."""
    about = tables[0].title.rpartition(": ")[0]
    kinds: dict[str, Table] = {}
    for table in tables:
        subject, _, kind = table.title.rpartition(": ")
        if subject == about and any(is_wrong(table, row) for row in table.rows):
            kinds.setdefault(kind.partition(",")[0], table)
    return list(kinds.values()) or list(tables[:1])


def print_told(console: Console, result: CheckResult, told: CheckResult) -> None:
    """Print what is wrong in a line each, for a result of which an earlier one says the same in full."""
    print_problems(console, [replace(p, excerpt="", generated=None, hint="") for p in result.errors])
    console.print(Text(f"  As in {told.name}, above; -v shows its own figures.", "cyan"), soft_wrap=True)


def print_notes(console: Console, notes: Iterable[str]) -> None:
    """Print remarks, a line each."""
    for note in notes:
        console.print(Text(f"         {note}", "dim"), soft_wrap=True)
