"""Results as text for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from patchgen_core.api import CodegenResult
from patchgen_core.drift import ConfigResult, DriftReport
from patchgen_core.errors import Problem, display_path

_STATUS_STYLE = {"clean": "green", "drifted": "red", "fixed": "yellow", "error": "bold red"}
_LINE_STYLE = {"+": "green", "-": "red", "@": "cyan"}


def diff_text(diff: str) -> Text:
    """A unified diff, coloured by line."""
    text = Text()
    for line in re.findall(r"[^\n]*\n|[^\n]+", diff):
        is_name = line.startswith(("+++ ", "--- "))
        text.append(line, "bold" if is_name else _LINE_STYLE.get(line[:1], ""))
    return text


def problem_text(problem: Problem, kind: str) -> Text:
    """A problem as ``file:line: kind: message``, its excerpt and what to do below."""
    text = Text()
    if problem.location:
        text.append(f"{problem.location}: ", "bold")
    text.append(f"{kind}: ", "bold red" if kind == "error" else "bold yellow")
    text.append(problem.message)
    for line in problem.excerpt.splitlines():
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
    for result in report.results:
        if result.status != "clean" or result.outcome.warnings or verbose:
            print_result(console, result, verbose)
    for path in report.orphans:
        line = Text.assemble(("orphan   ", "red"), f"{display_path(path)}: no config makes it any more")
        console.print(line, soft_wrap=True)
    for path in report.removed:
        console.print(Text.assemble(("removed  ", "yellow"), display_path(path)), soft_wrap=True)
    console.print(_summary(report), soft_wrap=True)


def print_result(console: Console, result: ConfigResult, verbose: bool = False) -> None:
    """Print the verdict on one config with its causes, problems and diffs."""
    console.print(_verdict(result), soft_wrap=True)
    _print_details(console, result, verbose)


def _verdict(result: ConfigResult) -> Text:
    text = Text.assemble((f"{result.status:<9}", _STATUS_STYLE[result.status]), (result.outcome.label, "bold"))
    if len(result.causes) == 1:
        text.append(f"  {result.causes[0]}")
    for cause in result.causes if len(result.causes) > 1 else ():
        text.append(f"\n         {cause}")
    return text


def _print_details(console: Console, result: ConfigResult, verbose: bool) -> None:
    print_problems(console, result.outcome.problems)
    print_problems(console, result.outcome.warnings, "warning")
    loaded = result.outcome.loaded
    if verbose and loaded is not None and loaded.mode == "imported":
        console.print(Text(f"         imported for real: {loaded.reason}", "dim"), soft_wrap=True)
    for cause in result.causes:
        if cause.upstream_diff:
            console.print(Text("         upstream's own change of what is patched here:", "yellow"), soft_wrap=True)
            console.print(diff_text(cause.upstream_diff), soft_wrap=True, end="")
    for file in result.files:
        if result.status == "fixed":
            console.print(Text(f"         wrote {display_path(file.path)}"), soft_wrap=True)
        elif file.old is None:
            console.print(Text(f"         {display_path(file.path)} is missing"), soft_wrap=True)
        elif file.path.suffix == ".py" or len(result.files) == 1:
            console.print(diff_text(file.telling_diff), soft_wrap=True, end="")


def _summary(report: DriftReport) -> Text:
    counts = dict.fromkeys(_STATUS_STYLE, 0)
    for result in report.results:
        counts[result.status] += 1
    parts = [f"{count} {status}" for status, count in counts.items() if count]
    if report.orphans:
        parts.append(f"{len(report.orphans)} orphaned file{'s' * (len(report.orphans) > 1)}")
    total = len(report.results)
    text = Text(f"{total} config{'s' * (total != 1)}: {', '.join(parts)}.", "green" if not report.exit_code else "red")
    if counts["drifted"]:
        text.append("\nRun 'patchgen --check --fix' to rewrite what drifted.", "cyan")
    if report.orphans:
        text.append("\nRun 'patchgen --check --fix --prune' to remove orphans.", "cyan")
    return text


def print_generated(
    console: Console, results: Iterable[CodegenResult], dry_run: bool, save_diff: bool, verbose: bool
) -> None:
    """Print what a generation wrote, or would write."""
    for result in results:
        print_problems(console, result.warnings, "warning")
        for line in _generated_lines(result, dry_run, save_diff):
            console.print(line, soft_wrap=True)
        if verbose or dry_run:
            for patch in result.artifact.plan.patches:
                added = " (added)" if patch.added else ""
                console.print(Text(f"         {patch.kind}: {patch.patch.target}{added}", "dim"), soft_wrap=True)
        if dry_run:
            console.print(diff_text(result.artifact.diff), soft_wrap=True, end="")


def _generated_lines(result: CodegenResult, dry_run: bool, save_diff: bool) -> Iterator[Text]:
    for path, text in result.artifact.output(save_diff):
        if dry_run:
            yield Text(f"would write  {display_path(path)} ({text.count(chr(10))} lines)", "bold")
        elif path in result.written:
            yield Text.assemble(("wrote    ", "green"), display_path(path))
        else:
            yield Text.assemble(("same     ", "dim"), display_path(path))
