"""Where lines of files are after the files were edited."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path

from patchgen_core.errors import Location
from patchgen_core.files import read_text


class MovedLines:
    """Follows lines of files, given as they are now, through edits; one that cannot be read is an error."""

    def __init__(self, files: Iterable[str]) -> None:
        self._before = {file: _lines(file) for file in dict.fromkeys(files)}
        self._cache: dict[str, list[int]] = {}

    def now(self, location: Location) -> Location:
        """Where a line is that stood at a location; of one that is not there any more, the line in its place, or else
        the nearest one before it that is still there."""
        file = location.file
        if not location.line or file not in self._before:
            return location
        if file not in self._cache:
            self._cache[file] = _follow(self._before[file], _lines(file))
        moved = self._cache[file]
        return replace(location, line=moved[location.line - 1]) if location.line <= len(moved) else location


def _lines(file: str) -> list[str]:
    return (read_text(Path(file)) or "").split("\n")


def _follow(before: list[str], after: list[str]) -> list[int]:
    """For each line before, the 1-based number of its line after."""
    if before == after:
        return list(range(1, len(before) + 1))
    results: list[int] = []
    for _, start, end, new_start, new_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        last = max(new_end, 1)
        results += [min(new_start + 1 + number, last) for number in range(end - start)]
    return results
