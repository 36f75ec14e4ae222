"""What ``patchgen --check`` found out, as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from patchgen_core.build.results import DriftReport
from patchgen_core.checks.result import BAD, CheckResult, drift_result
from patchgen_core.errors import display_path
from patchgen_core.report.drift.summary import drift_summary
from patchgen_core.report.gate.details import print_details, verdict_text
from patchgen_core.report.gate.report import GateReport
from patchgen_core.report.words import quantity


def print_drift(
    console: Console, report: DriftReport, verbose: bool = False, fix: str = "patchgen --check --fix"
) -> None:
    """Print a drift report: a line for each config that is not clean, its diffs, and a summary that names ``fix``."""
    for result in map(drift_result, report.results):
        if result.status != "clean" or result.warnings or verbose:
            console.print(verdict_text(result), soft_wrap=True)
            print_details(console, result, verbose)
    print_orphans(console, report.orphans)
    for path in report.removed:
        console.print(Text.assemble(("removed  ", "yellow"), display_path(path)), soft_wrap=True)
    summary = (Text(text, style) for text, style in drift_summary(report, fix))
    console.print(Text("\n").join(summary), soft_wrap=True)


def print_orphans(console: Console, paths: Iterable[Path]) -> None:
    """Print generated files that no config makes, a line each."""
    for path in paths:
        line = Text.assemble(("orphan   ", "red"), f"{display_path(path)}: no config makes it now")
        console.print(line, soft_wrap=True)


def print_contracts(console: Console, results: Sequence[CheckResult], verbose: bool = False) -> None:
    """Print what the contract rules found, and a summary."""
    for result in results:
        if result.status in BAD or result.warnings or (verbose and (result.notes or result.reason or result.held)):
            console.print(verdict_text(result), soft_wrap=True)
            print_details(console, result, verbose)
    counts = {
        "allowance": sum(len(result.notes) for result in results),
        "known finding": sum(len(result.held) for result in results),
        "skipped config": sum(result.status == "skipped" for result in results),
    }
    console.print(contract_summary(results, counts), soft_wrap=True)


def contract_summary(results: Sequence[CheckResult], others: Mapping[str, int]) -> Text:
    """What the contract rules found, in one line, with counts of other things, and how more is to be read of it."""
    counts = {
        "error": sum(len(result.errors) for result in results),
        "warning": sum(len(result.warnings) for result in results),
        **others,
    }
    parts = [quantity(count, word) for word, count in counts.items() if count]
    style = "red" if counts["error"] else "yellow" if counts["warning"] else "green"
    text = Text(f"contracts: {', '.join(parts) or 'kept'}.", style)
    codes = GateReport(tuple(results)).codes
    if codes:
        text.append(f"\nRun 'patchgen rule {' '.join(codes)}' for an explanation of the findings.", "cyan")
    return text
