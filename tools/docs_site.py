"""What mkdocs is told about the pages of docs/, which are written for a reader of the repository.

The options of a fenced block say how the tests run it; a site shows the file's name as a title instead. A link that
leads out of docs/ works in the repository alone: its text stays.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r"^```(\w+)[ \t]+(.+)$", re.MULTILINE)
_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")


def _fence(match: re.Match[str]) -> str:
    options = dict(option.split("=", 1) for option in match[2].split())
    path = next((options[name] for name in ("file", "append", "in") if name in options), None)
    return f'```{match[1]} title="{path}"' if path else f"```{match[1]}"


def on_page_markdown(markdown: str, **_: object) -> str:
    """The page as mkdocs reads it."""
    return _OUTSIDE.sub(r"\1", _FENCE.sub(_fence, markdown))
