"""Parsed files that outlive a run."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from patchgen_core.files import FileState, file_state
from patchgen_core.syntax.source import SourceCache, SourceFile

MOST_LINES = 60_000
"""Lines of the files that are kept, of about 1.7 KiB each; the files that were used least recently go."""


class ParsedFiles(SourceCache):
    """Parses a file again only when it has changed."""

    def __init__(self, most_lines: int = MOST_LINES) -> None:
        super().__init__()
        self._most_lines = most_lines
        self._states: dict[Path, FileState | None] = {}

    def get(self, path: Path) -> SourceFile:
        """The parsed file, of which :meth:`forget_changed` has not found a change."""
        if path not in self._files:
            self._states[path] = file_state(path)
        source = super().get(path)
        self._files[path] = self._files.pop(path)
        return source

    def held(self, path: Path) -> SourceFile | None:
        """The parsed file where it is held already, and has not changed; of others nothing is read."""
        source = self._files.get(path)
        return source if source is not None and self._states.get(path) == file_state(path) else None

    def holds(self, source: SourceFile) -> bool:
        """Whether this very object is the one that is held of its file."""
        return self._files.get(source.path) is source

    def forget_changed(self, paths: Collection[Path]) -> None:
        """Forget the files that were changed: these, and those that look other than when they were read."""
        for path in list(self._files):
            state = self._states.get(path)
            if path in paths or state is None or state != file_state(path):
                self._forget(path)

    def forget_oldest(self) -> None:
        """Forget the files that were used least recently, when there are more than are kept."""
        total = self._count()
        for path, source in list(self._files.items()):
            if total <= self._most_lines:
                return
            total -= source.text.count("\n")
            self._forget(path)

    @property
    def has_room(self) -> bool:
        """Whether it holds less than half of what it may."""
        return self._count() < self._most_lines // 2

    def _count(self) -> int:
        return sum(source.text.count("\n") for source in self._files.values())

    def _forget(self, path: Path) -> None:
        del self._files[path]
        self._states.pop(path, None)
