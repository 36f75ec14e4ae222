"""A run as Markdown: the comment of a pull request, and the summary of a check run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from patchgen_core.report import markdown
from patchgen_service.forges.client import Annotation, Level
from patchgen_service.posting.approval_text import describe_approvals
from patchgen_service.posting.words import describe, one_line, run_address, status_word
from patchgen_service.views.run import ResultLine, RunDetail

_ROWS = 30
_MOST_ANNOTATIONS = 500
_SIGNS = {"passed": "✓", "drifted": "≠", "broken": "✕", "flaky": "~"}
"""As on pages: a state is never told by its colour alone."""


def comment_body(detail: RunDetail, base_url: str, patch: str = "") -> str:
    """What is said below a pull request: first what is new since the baseline. ``patch`` is that of an approval."""
    sign = _SIGNS.get(detail.line.status, "!")
    title = f"### {sign} patchgen: {status_word(detail.line.status)}"
    return "\n".join([title, "", summary_body(detail, base_url, patch)])


def summary_body(detail: RunDetail, base_url: str, patch: str = "") -> str:
    """What a run came to, without a title."""
    lines = [markdown.escape(describe(detail)), "", *describe_approvals(detail, base_url, patch)]
    new = [result for result in detail.results if result.change == "new"]
    if new:
        lines += ["**New since the baseline**", "", *_table(new), ""]
    if detail.uncompared:
        lines += ["**Red, with nothing to compare it with**", "", *_table(detail.uncompared), ""]
    if known := detail.changed("known"):
        lines += [*markdown.details(f"{len(known)} red before as well", _table(known)), ""]
    if fixed := detail.changed("fixed"):
        lines += [*markdown.details(f"{len(fixed)} fixed", _table(fixed)), ""]
    return "\n".join([*lines, *_footer(detail, base_url)])


def annotate_red(detail: RunDetail) -> tuple[Annotation, ...]:
    """A remark at each config with something red: first the new ones."""
    red = sorted((result for result in detail.results if result.is_bad), key=lambda result: result.change == "known")
    return tuple(_annotate(result) for result in red[:_MOST_ANNOTATIONS])


def offers_files(detail: RunDetail) -> bool:
    """Whether a run has regenerated files that nobody has approved yet."""
    if any(approval.state != "refused" for approval in detail.approvals):
        return False
    return any(file.kind in ("generated", "removed") for file in detail.files)


def _annotate(result: ResultLine) -> Annotation:
    title = f"{result.item}: {result.config}" + (" (red before as well)" if result.change == "known" else "")
    level: Level = "warning" if result.change == "known" else "failure"
    return Annotation(result.path, result.line, level, one_line(title), result.headline or result.status)


def _table(results: Sequence[ResultLine]) -> list[str]:
    rows = [_row((result.status, result.item, result.config, result.headline)) for result in results[:_ROWS]]
    more = [f"… and {len(results) - _ROWS} more"] if len(results) > _ROWS else []
    return [*markdown.table_head(["result", "check", "config", "what"]), *rows, *[f"\n{line}" for line in more]]


def _row(cells: Iterable[str]) -> str:
    status, item, config, headline = (one_line(cell, 160) for cell in cells)
    return markdown.table_row([status, _code(item), _code(config), _code(headline)])


def _code(text: str) -> str:
    return markdown.code(text) if text else ""


def _footer(detail: RunDetail, base_url: str) -> list[str]:
    line = detail.line
    text = f"[Run {line.number}]({run_address(base_url, line.id)}) of {markdown.code(line.sha[:10])}"
    if detail.baseline is not None:
        baseline = f"[run {detail.baseline.number}]({run_address(base_url, detail.baseline.id)})"
        text += f", compared with {baseline}: {markdown.escape(one_line(detail.baseline_reason))}"
    elif detail.baseline_reason:
        text += f"; baseline: {markdown.escape(one_line(detail.baseline_reason))}"
    lines = [f"{text}."]
    if offers_files(detail):
        lines += [
            "",
            f"You can look at the regenerated files and approve them [there]({run_address(base_url, line.id)}).",
        ]
    return lines
