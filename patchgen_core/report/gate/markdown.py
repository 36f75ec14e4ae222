"""A run of the gate as Markdown."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from patchgen_core.checks.result import BAD, CheckResult
from patchgen_core.errors import display_path
from patchgen_core.report.figures import table_markdown
from patchgen_core.report.gate.report import GateReport
from patchgen_core.report.gate.terminal import gate_rows
from patchgen_core.report.markdown import details, diff_fence, escape, fence, table_head, table_row


def gate_markdown(report: GateReport, folder: Path | None = None, is_whole: bool = True) -> str:
    """The report as Markdown: the table, and what was found below it. A text in ``folder`` has links to pictures."""
    lines = [f"### patchgen: {report.verdict}", "", report.summary(), ""]
    if report.results:
        lines += table_head(["config", *report.checks])
    for row in gate_rows(report):
        name = row.config if row.is_count else f"`{row.config}`"
        lines.append(table_row([name, *(text for text, _ in row.cells)]))
    for result in report.results:
        if result.status in BAD or result.warnings:
            lines += ["", *details(f"{result.config}: {result.name}", [*_result_lines(result, folder, is_whole)])]
    if report.not_run:
        lines += ["", "Not run: " + ", ".join(f"`{item}`" for item in report.not_run)]
    if report.not_collected:
        lines += ["", "Not collected: " + ", ".join(f"`{display_path(path)}`" for path in report.not_collected)]
    return "\n".join(lines) + "\n"


def _result_lines(result: CheckResult, folder: Path | None, is_whole: bool) -> Iterator[str]:
    for cause in result.causes:
        yield f"- {escape(str(cause))}"
    problems = [*map(str, result.errors), *(f"warning: {problem}" for problem in result.warnings)]
    if problems:
        yield from ["", *fence("\n".join(problems))]
    if result.picture and folder is not None:
        name = os.path.relpath(result.picture, folder).replace(os.sep, "/")
        yield from ["", f"![errors by layer](<{name}>)"]
    for table in result.tables:
        yield from ["", *table_markdown(table, is_whole)]
    diffs = [cause.upstream_diff for cause in result.causes]
    diffs += [file.telling for file in result.files if not file.missing]
    for diff in filter(None, diffs):
        yield from ["", *diff_fence(diff)]
