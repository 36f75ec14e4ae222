"""Text and code as Markdown that shows them as they are."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from patchgen_core.report.diff import plain_diff

_SPECIAL = re.compile(r"([\\`*_\[\]<>&~|#])")
_MENTION = re.compile(r"@(?=\w)")
_NOBODY = "@<!-- -->"


def escape(text: str) -> str:
    """Text for a paragraph, a list or a cell of a table; ``@name`` in it calls nobody on GitHub."""
    return _MENTION.sub(_NOBODY, _SPECIAL.sub(r"\\\1", text.replace("\n", " ")))


def code(text: str) -> str:
    """Text as a span of code, which may hold backticks."""
    mark = "`"
    while mark in text:
        mark += "`"
    room = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{mark}{room}{text}{room}{mark}"


def cell(text: str) -> str:
    """Text as a span of code in a cell of a table, where a bar would end it."""
    return code(text.replace("|", "\\|"))


def fence(text: str, language: str = "") -> list[str]:
    """The lines of a fenced block, which may hold fences."""
    mark = "```"
    while mark in text:
        mark += "`"
    return [f"{mark}{language}", text, mark]


def diff_fence(diff: str) -> list[str]:
    """The lines of a fenced unified diff, whose long hunks are folded."""
    return fence(plain_diff(diff, folded=True).plain.rstrip("\n"), "diff")


def table_head(columns: Sequence[str]) -> list[str]:
    """The lines with which a table begins."""
    return [table_row(columns), table_row(["---"] * len(columns))]


def table_row(cells: Sequence[str]) -> str:
    """A row of a table."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def details(title: str, body: Sequence[str]) -> list[str]:
    """Lines that are folded away below a title."""
    text = _MENTION.sub(_NOBODY, html.escape(title.replace("\n", " ")))
    return [f"<details><summary>{text}</summary>", "", *body, "", "</details>"]
