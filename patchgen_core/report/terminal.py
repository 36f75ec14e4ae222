"""Results as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from patchgen_core.checks.result import BAD, STATUS_STYLE, CheckResult, drift_result
from patchgen_core.errors import Problem, display_path
from patchgen_core.report.summary import drift_summary

if TYPE_CHECKING:
    from patchgen_core.api.codegen import CodegenResult
    from patchgen_core.build.results import DriftReport
    from patchgen_core.checks.tables import Table


def problem_text(problem: Problem, kind: str) -> Text:
    """A problem as ``file:line: kind: message``, its excerpt and what to do below."""
    text = Text()
    if problem.location:
        text.append(f"{problem.location}: ", "bold")
    text.append(f"{kind}: ", "bold red" if kind == "error" else "bold yellow")
    text.append(problem.title)
    for line in problem.excerpt.splitlines():
        text.append(f"\n  {line}", "dim" if not line.startswith(">") else "")
    if problem.generated is not None:
        text.append(f"\n  {problem.generated.location}:", "bold")
        for line in problem.generated.text.splitlines():
            text.append(f"\n  {line}", "dim" if not line.startswith(">") else "")
    if problem.hint:
        text.append(f"\n  {problem.hint}", "cyan")
    return text


def print_problems(console: Console, problems: Iterable[Problem], kind: str = "error") -> None:
    """Print problems, one paragraph each."""
    for problem in problems:
        console.print(problem_text(problem, kind), soft_wrap=True)


def print_drift(console: Console, report: DriftReport, verbose: bool = False) -> None:
    """Print a drift report: a line for each config that is not clean, its diffs, and a summary."""
    for record in map(drift_result, report.results):
        if record.status != "clean" or record.warnings or verbose:
            console.print(verdict_text(record), soft_wrap=True)
            print_details(console, record, verbose)
    for path in report.orphans:
        line = Text.assemble(("orphan   ", "red"), f"{display_path(path)}: no config makes it any more")
        console.print(line, soft_wrap=True)
    for path in report.removed:
        console.print(Text.assemble(("removed  ", "yellow"), display_path(path)), soft_wrap=True)
    console.print(_summary(report), soft_wrap=True)


def verdict_text(record: CheckResult, named: bool = True) -> Text:
    """The status and the causes of a verdict; with ``named``, of which config."""
    text = Text()
    if named:
        text = Text.assemble((f"{record.status:<9}", STATUS_STYLE[record.status]), (record.config, "bold"))
        indent = "  " if len(record.causes) == 1 else "\n         "
    for number, cause in enumerate(record.causes):
        text.append(f"{indent}{cause}" if named else "\n" * bool(number) + str(cause))
    if record.reason:
        text.append(f"  {record.reason}" if named else record.reason)
    return text


def print_details(
    console: Console, record: CheckResult, verbose: bool = False, folded: bool = False, is_whole: bool = True
) -> None:
    """Print what belongs to a verdict: problems and their figures, what upstream changed, the files that differ.

    Args:
        console: where to.
        record: the verdict, its first line printed already.
        verbose: also say how the config was loaded.
        folded: leave out the middle of long hunks. A terminal gets them folded unless ``verbose``.
        is_whole: print all figures. If not, of several problems that come with figures all but the first are one line
            each, and of the figures those of the first that tell most.
    """
    _print_errors(console, record, is_whole)
    print_problems(console, record.warnings, "warning")
    _print_notes(console, record.notes if verbose else ())
    if verbose and record.loading == "imported":
        console.print(Text(f"         imported for real: {record.loading_reason}", "dim"), soft_wrap=True)
    for cause in record.causes:
        if cause.upstream_diff:
            console.print(Text("         upstream's own change of what is patched here:", "yellow"), soft_wrap=True)
            _print_diff(console, cause.upstream_diff, verbose, folded)
    for file in record.files:
        if record.status == "fixed":
            console.print(Text(f"         wrote {display_path(file.path)}"), soft_wrap=True)
        elif file.missing:
            console.print(Text(f"         {display_path(file.path)} is missing"), soft_wrap=True)
        elif file.path.endswith(".py") or len(record.files) == 1:
            _print_diff(console, file.telling, verbose, folded)


def _print_errors(console: Console, record: CheckResult, is_whole: bool) -> None:
    if is_whole or not record.tables:
        print_problems(console, record.errors)
        tables, others = list(record.tables), []
    else:
        first, *others = record.errors
        print_problems(console, [first])
        tables = _telling(record.tables)
    if tables:
        _print_tables(console, tables, is_whole)
    if others:
        console.print()
        print_problems(console, [replace(problem, excerpt="", generated=None, hint="") for problem in others])


def _print_tables(console: Console, tables: Iterable[Table], is_whole: bool) -> None:
    from patchgen_core.report.tables import table_text

    width = console.width if console.is_terminal else None
    for table in tables:
        console.print()
        console.print(table_text(table, width, is_whole), soft_wrap=True)


def _telling(tables: Sequence[Table]) -> list[Table]:
    """Of the first thing that tables are about, those in which something is wrong, one of each kind."""
    from patchgen_core.report.tables import is_wrong

    about = tables[0].title.rpartition(": ")[0]
    kinds: dict[str, Table] = {}
    for table in tables:
        subject, _, kind = table.title.rpartition(": ")
        if subject == about and any(is_wrong(table, row) for row in table.rows):
            kinds.setdefault(kind.partition(",")[0], table)
    return list(kinds.values()) or list(tables[:1])


def _print_notes(console: Console, notes: Iterable[str]) -> None:
    for note in notes:
        console.print(Text(f"         {note}", "dim"), soft_wrap=True)


def _print_diff(console: Console, diff: str, verbose: bool, folded: bool) -> None:
    from patchgen_core.report.diff import plain_diff, rich_diff

    if console.is_terminal:
        console.print(rich_diff(diff, folded=not verbose))
    else:
        console.print(plain_diff(diff, folded), soft_wrap=True, end="")


def _summary(report: DriftReport) -> Text:
    return Text("\n").join(Text(text, style) for text, style in drift_summary(report))


def print_contracts(console: Console, records: Sequence[CheckResult], verbose: bool = False) -> None:
    """Print what the contract rules found, and a summary."""
    for record in records:
        if record.status in BAD or record.warnings or (verbose and (record.notes or record.reason)):
            console.print(verdict_text(record), soft_wrap=True)
            print_details(console, record, verbose)
    counts = {
        "error": sum(len(record.errors) for record in records),
        "warning": sum(len(record.warnings) for record in records),
        "allowance": sum(len(record.notes) for record in records),
        "skipped config": sum(record.status == "skipped" for record in records),
    }
    console.print(_contract_summary(counts, [p for r in records for p in (*r.errors, *r.warnings)]), soft_wrap=True)


def _contract_summary(counts: Mapping[str, int], found: Iterable[Problem]) -> Text:
    parts = [f"{count} {word}{'s' * (count != 1)}" for word, count in counts.items() if count]
    style = "red" if counts["error"] else "yellow" if counts["warning"] else "green"
    text = Text(f"contracts: {', '.join(parts) or 'kept'}.", style)
    codes = sorted({problem.code for problem in found})
    if codes:
        text.append(f"\nRun 'patchgen rule {' '.join(codes)}' for what is behind the findings.", "cyan")
    return text


def print_generated(
    console: Console, results: Sequence[CodegenResult], dry_run: bool, save_diff: bool, verbose: bool
) -> None:
    """Print what a generation wrote, or would write, and what the contract rules find in it."""
    for result in results:
        print_problems(console, result.verdict.errors)
        print_problems(console, result.verdict.warnings, "warning")
        _print_notes(console, result.verdict.notes if verbose else ())
        for line in _generated_lines(result, dry_run, save_diff):
            console.print(line, soft_wrap=True)
        if verbose or dry_run:
            for patch in result.artifact.plan.patches:
                added = " (added)" if patch.added else ""
                console.print(Text(f"         {patch.kind}: {patch.patch.target}{added}", "dim"), soft_wrap=True)
        if dry_run:
            _print_diff(console, result.artifact.diff, True, False)
    verdicts = [result.verdict for result in results]
    if found := [problem for verdict in verdicts for problem in (*verdict.errors, *verdict.warnings)]:
        errors = sum(len(verdict.errors) for verdict in verdicts)
        counts = {"error": errors, "warning": len(found) - errors}
        console.print(_contract_summary(counts, found), soft_wrap=True)


def _generated_lines(result: CodegenResult, dry_run: bool, save_diff: bool) -> Iterator[Text]:
    for path, text in result.artifact.output(save_diff):
        if dry_run:
            yield Text(f"would write  {display_path(path)} ({text.count(chr(10))} lines)", "bold")
        elif path in result.written:
            yield Text.assemble(("wrote    ", "green"), display_path(path))
        else:
            yield Text.assemble(("same     ", "dim"), display_path(path))
