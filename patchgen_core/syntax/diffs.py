"""Unified diffs of source texts: made, applied and reversed."""

from __future__ import annotations

import difflib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.syntax.source import parse_source

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
"""The line that starts a hunk: first line and number of lines, before and after."""


@dataclass(frozen=True)
class Line:
    """A line of a hunk: space, ``+``, ``-``, or ``\\`` for a remark, and its numbers before and after, 0 for none."""

    kind: str
    text: str
    old: int
    new: int


@dataclass(frozen=True)
class Hunk:
    """A hunk with its ``@@`` line."""

    header: str
    lines: tuple[Line, ...]

    @property
    def owner(self) -> str:
        """The class, method or function that its header names; empty for none."""
        return self.header.rpartition("@@")[2].strip()


@dataclass(frozen=True)
class FileDiff:
    """The hunks of one file, and the names it has before and after."""

    old: str
    new: str
    hunks: tuple[Hunk, ...]


def unified_diff(old: str, new: str, old_name: str, new_name: str) -> str:
    """A unified diff; empty when the texts are the same."""
    before, after = list(io.StringIO(old)), list(io.StringIO(new))
    lines = difflib.unified_diff(before, after, old_name, new_name)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def parse_diff(diff: str) -> list[FileDiff]:
    """The files of a unified diff."""
    files: list[tuple[str, str, list[Hunk]]] = []
    rows = iter(diff.split("\n"))
    for row in rows:
        if row.startswith("--- "):
            files.append((row[4:], next(rows, "")[4:], []))
        elif match := _HUNK.match(row):
            old, new = int(match[1]), int(match[3])
            counts = [int(match[group] or 1) for group in (2, 4)]
            files[-1][2].append(Hunk(row, tuple(_read_lines(rows, old, new, *counts))))
    return [FileDiff(old, new, tuple(hunks)) for old, new, hunks in files]


def _read_lines(rows: Iterator[str], old: int, new: int, old_count: int, new_count: int) -> Iterator[Line]:
    while old_count > 0 or new_count > 0:
        row = next(rows, None)
        if row is None:
            return
        kind, text = row[:1] or " ", row[1:]
        is_old, is_new = kind in " -", kind in " +"
        yield Line(kind, text, old * is_old, new * is_new)
        old, old_count = old + is_old, old_count - is_old
        new, new_count = new + is_new, new_count - is_new


def added_lines(diff: str) -> Iterator[int]:
    """The lines, counted from 1, that a unified diff adds to the text it leads to."""
    for file in parse_diff(diff):
        for hunk in file.hunks:
            yield from (line.new for line in hunk.lines if line.kind == "+")


def with_owners(diff: str, new: str) -> str:
    """A unified diff leading to ``new``, its ``@@`` lines naming the class, method or function of the first change."""
    source = parse_source(Path(), new)
    rows = diff.split("\n")
    for number, row in enumerate(rows):
        if hunk := _HUNK.match(row):
            context = next(n for n, line in enumerate(rows[number + 1 :]) if line[:1] != " ")
            rows[number] = f"{row} {source.owner_at(int(hunk[3]) + context)}".rstrip()
    return "\n".join(rows)


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
            hunk = _HUNK.match(line)
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
