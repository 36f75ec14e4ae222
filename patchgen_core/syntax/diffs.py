"""Unified diffs of source texts: made, applied and reversed."""

from __future__ import annotations

import difflib
import io
import re
from pathlib import Path

from patchgen_core.syntax.source import SourceFile, parse_source

HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
"""The line that starts a hunk: first line and number of lines, before and after."""


def unified_diff(old: str, new: str, old_name: str, new_name: str) -> str:
    """A unified diff; empty when the texts are the same."""
    before, after = list(io.StringIO(old)), list(io.StringIO(new))
    lines = difflib.unified_diff(before, after, old_name, new_name)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def with_owners(diff: str, new: str) -> str:
    """A unified diff of Python whose ``@@`` lines name the class, method or function that the first change is in.

    Args:
        diff: the diff.
        new: the text that it leads to, valid Python.
    """
    source = parse_source(Path(), new)
    rows = diff.split("\n")
    for number, row in enumerate(rows):
        if hunk := HUNK.match(row):
            context = next(n for n, line in enumerate(rows[number + 1 :]) if line[:1] != " ")
            rows[number] = f"{row} {owner_of_line(source, int(hunk[3]) + context)}".rstrip()
    return "\n".join(rows)


def owner_of_line(source: SourceFile, line: int) -> str:
    """The class, method or function that a line belongs to; empty for none."""
    owner = ""
    for name, node in source.definitions:
        if node.lineno <= line <= (node.end_lineno or 0) and "<locals>" not in name:
            owner = name
    return owner


def reverse_diff(text: str, diff: str) -> str | None:
    """The text that a unified diff was made from, given the one it leads to; None when they do not fit."""
    return _follow(text, diff, have="+", gone="-", start=3)


def apply_diff(text: str, diff: str) -> str | None:
    """The text that a unified diff leads to, given the one it was made from; None when they do not fit."""
    return _follow(text, diff, have="-", gone="+", start=1)


def _follow(text: str, diff: str, have: str, gone: str, start: int) -> str | None:
    """Walk a diff from the side whose lines are marked ``have`` to the other one."""
    lines = text.split("\n")
    result: list[str] = []
    position = 0
    for line in diff.split("\n")[2:]:
        kind, rest = line[:1], line[1:]
        if kind == "@":
            hunk = HUNK.match(line)
            if hunk is None:
                return None
            first = int(hunk[start]) - (0 if hunk[start + 1] == "0" else 1)
            result += lines[position:first]
            position = first
        elif kind == gone:
            result.append(rest)
        elif kind in (" ", have):
            if position >= len(lines) or lines[position] != rest:
                return None
            position += 1
            if kind == " ":
                result.append(rest)
    return "\n".join(result + lines[position:])
