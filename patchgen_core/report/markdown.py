"""Text and code as Markdown that shows them as they are."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

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


def details(title: str, body: Sequence[str]) -> list[str]:
    """Lines that are folded away below a title."""
    shown = _MENTION.sub(_NOBODY, html.escape(title.replace("\n", " ")))
    return [f"<details><summary>{shown}</summary>", "", *body, "", "</details>"]
