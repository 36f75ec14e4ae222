"""Edits of a text, applied together, remembering which lines each one wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Edit:
    """Replace ``text[start:end]`` by ``new``; ``origin`` asked for it and is reported for the lines it wrote."""

    start: int
    end: int
    new: str
    origin: Any = None


@dataclass(frozen=True)
class Written:
    """Lines ``first`` to ``last`` (1-based) of a text, and what asked for them."""

    first: int
    last: int
    origin: Any


def apply_edits(text: str, edits: list[Edit]) -> tuple[str, list[Written]]:
    """Apply edits that do not overlap. Of two at one place, the one that was listed first comes first."""
    parts: list[str] = []
    written: list[Written] = []
    position, line = 0, 1
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        assert edit.start >= position, f"overlapping edits at offset {edit.start}"
        unchanged = text[position : edit.start]
        line += unchanged.count("\n")
        parts += [unchanged, edit.new]
        last = line + edit.new.count("\n")
        if edit.origin is not None and edit.new:
            written.append(Written(line, last - edit.new.endswith("\n"), edit.origin))
        line, position = last, edit.end
    parts.append(text[position:])
    return "".join(parts), written
