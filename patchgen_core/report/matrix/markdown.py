"""Configs against releases, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from patchgen_core.report.markdown import code, details, escape, table_head, table_row
from patchgen_core.report.matrix.breaks import find_breaks, short_names
from patchgen_core.report.matrix.terminal import WORDS, spans_of, summary, word
from patchgen_core.upgrade.matrix.results import Cell, MatrixReport, State

_MARKS: dict[State, str] = {"breaks": "❌", "absent": "⚪", "changed": "🟡", "cosmetic": "🔵", "ok": "✅"}


def matrix_markdown(report: MatrixReport) -> str:
    """A matrix as Markdown: a table, what breaks where, and, folded away, every patch and what upstream changed."""
    lines = [f"## {escape(report.distribution)}: configs and releases", "", escape(summary(report)[0]), ""]
    if report.rows and report.versions:
        lines += [*_table(report), "", _legend(report), ""]
    for entry in find_breaks(report):
        lines += [f"### {escape(entry.title)}", ""]
        for reason in entry.reasons:
            lines += [f"- {'; '.join(map(escape, reason.lines))}"]
            lines += [f"  - {code(str(place))} ({escape(str(place.location))})" for place in reason.places]
        lines.append("")
    lines += _rest(report)
    for title, body in _patches(report):
        lines += [*details(title, body), ""]
    return "\n".join(lines).rstrip() + "\n"


def _cell_text(cell: Cell, base: str, count: int = 0) -> str:
    return f"{_MARKS[cell.state]} {word(cell, base, count)}"


def _table(report: MatrixReport) -> Iterator[str]:
    names = short_names([row.config for row in report.rows])
    yield from table_head(["config", *report.versions])
    for row in report.rows:
        cells = (_cell_text(cell, row.base, row.count(column)) for column, cell in enumerate(row.cells))
        yield table_row([code(names[row.config]), *cells])


def _legend(report: MatrixReport) -> str:
    states = {cell.state for row in report.rows for cell in row.cells}
    return "; ".join(f"{_MARKS[s]} {short}: {meaning}" for s, (short, meaning) in WORDS.items() if s in states) + "."


def _rest(report: MatrixReport) -> list[str]:
    lines = [f"- {escape(row.config)}: {escape(note)}" for row in report.rows for note in row.notes]
    lines += [f"- skipped: {escape(skipped)}" for skipped in report.skipped]
    lines += [f"- error: {escape(str(problem))}" for problem in report.failed]
    return [*lines, ""] if lines else []


def _patches(report: MatrixReport) -> Iterator[tuple[str, list[str]]]:
    for row in report.rows:
        if not row.patches or not report.versions:
            continue
        body = table_head(["patch", *report.versions])
        for patch in row.patches:
            body.append(table_row([code(patch.target), *(_cell_text(cell, row.base) for cell in patch.cells)]))
        changes = [
            f"- {code(patch.target)}, {versions}: {'; '.join(map(escape, reasons))}"
            for patch in row.patches
            for versions, reasons in spans_of(patch)
        ]
        yield f"{row.config}: {len(row.patches)} patches", [*body, *([""] if changes else []), *changes]
