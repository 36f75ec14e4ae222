"""What ruff will most likely make of the next version of a text, by what it made of the last one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_MOST_FILES = 2
"""Of how many files the last version is known: people type in one config at a time."""
_CONTEXTS = (1, 4, 16)
"""Lines around a change by which its place is looked for: as many as make it the only one."""
_MOST_LINES = 4
"""How many lines may change where they stand before another change."""


@dataclass(frozen=True)
class _Version:
    raw: str
    fixed: str
    final: str


class LikelyTexts:
    """The last versions of texts: as they were, with ruff's fixes, and laid out. Whoever foresees something by them
    has to see whether it comes true."""

    def __init__(self) -> None:
        self._versions: dict[Path, _Version] = {}

    def foresee_fixed(self, path: Path, raw: str) -> str | None:
        """A text with the fixes of the last version, which are mostly in its imports; None where that is not known."""
        last = self._versions.get(path)
        return _carry_over(last.raw, last.fixed, raw) if last is not None else None

    def foresee_final(self, path: Path, raw: str) -> str | None:
        """The final text of the last version with what differs from it; None where that has no evident place."""
        last = self._versions.get(path)
        return _carry_over(last.raw, raw, last.final) if last is not None else None

    def note(self, path: Path, raw: str, fixed: str, final: str) -> None:
        """Remember what became of a text."""
        self._versions.pop(path, None)
        self._versions[path] = _Version(raw, fixed, final)
        if len(self._versions) > _MOST_FILES:
            del self._versions[next(iter(self._versions))]


def _carry_over(old: str, new: str, text: str) -> str | None:
    """A text with the lines that differ between two others replaced; None where they are not evident in it."""
    old_lines, new_lines = old.splitlines(keepends=True), new.splitlines(keepends=True)
    carried: str | None = text
    for change in _find_changes(old_lines, new_lines):
        carried = _replace(old_lines, new_lines, change, carried) if carried is not None else None
    return carried


@dataclass(frozen=True)
class _Change:
    """Lines of one text, from ``first`` to before ``end``, in whose place another has others."""

    first: int
    end: int
    new_first: int
    new_end: int


def _find_changes(old: Sequence[str], new: Sequence[str]) -> Iterator[_Change]:
    """Some lines that changed where they stand, as the fingerprint in a header does, and what is between the next
    difference and the last."""
    first, shorter = 0, min(len(old), len(new))
    while True:
        while first < shorter and old[first] == new[first]:
            first += 1
        if first == len(old) == len(new):
            return
        behind = first
        while behind < shorter and old[behind] != new[behind] and behind < first + _MOST_LINES:
            behind += 1
        is_further = behind < shorter and old[behind] == new[behind] and old[behind:] != new[behind:]
        if not is_further:
            break
        yield _Change(first, behind, first, behind)
        first = behind
    same = 0
    while same < shorter - first and old[-1 - same] == new[-1 - same]:
        same += 1
    yield _Change(first, len(old) - same, first, len(new) - same)


def _replace(old: Sequence[str], new: Sequence[str], change: _Change, text: str) -> str | None:
    """A text with a change, where the lines that it is about and those around them stand in it once."""
    for context in _CONTEXTS:
        before = min(context, change.first)
        piece = "".join([*old[change.first - before : change.end], *old[change.end : change.end + context]])
        if not piece or (count := text.count(piece)) == 0:
            return None
        if count == 1:
            around = new[change.new_first - before : change.new_first], old[change.end : change.end + context]
            return text.replace(piece, "".join([*around[0], *new[change.new_first : change.new_end], *around[1]]))
    return None
