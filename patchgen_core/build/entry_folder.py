"""A folder of small files, of which those that were used least recently go when there are more than a limit."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.errors import Location, PatchgenError

_DAY = 24 * 60 * 60


@dataclass(frozen=True)
class EntryFile:
    """A file of such a folder: where it is, its size in bytes, and when it was used, in seconds."""

    path: Path
    size: int
    used: float


class EntryFolder:
    """The files of a folder whose names fit a pattern; nothing else in it is touched."""

    def __init__(self, path: Path, pattern: re.Pattern[str], limit: int) -> None:
        self.path, self.pattern, self.limit = path, pattern, limit

    def paths(self) -> list[Path]:
        """The files that are there; none of a folder that cannot be read."""
        try:
            return [self.path / name for name in os.listdir(self.path) if self.pattern.fullmatch(name)]
        except OSError:
            return []

    def files(self) -> Iterator[EntryFile]:
        """The files with their sizes; what goes meanwhile is not one of them."""
        for path in self.paths():
            try:
                status = path.stat()
            except OSError:
                continue
            yield EntryFile(path, status.st_size, status.st_mtime)

    def bound(self) -> None:
        """Remove the files that were used least recently, when there are more than the limit; a PatchgenError when one
        cannot be removed."""
        if len(self.paths()) <= self.limit:
            return
        by_use = sorted(self.files(), key=lambda file: file.used)
        _remove(file.path for file in by_use[: -self.limit * 3 // 4])

    def clear(self) -> int:
        """Remove every file and return how many; a PatchgenError when one cannot be removed."""
        paths = self.paths()
        _remove(paths)
        return len(paths)


def is_old(used: float) -> bool:
    """Whether a file was last used so long ago that another use should be noted."""
    return used < time.time() - _DAY


def touch(file: Path) -> None:
    """Mark a file as used; a folder that cannot be written to is used as it is."""
    try:
        os.utime(file)
    except OSError:
        return


def _remove(files: Iterable[Path]) -> None:
    """Remove files, which another process may have done."""
    for path in files:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise PatchgenError(f"cannot be removed: {error.strerror}", Location(str(path))) from None
