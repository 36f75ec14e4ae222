"""A folder of small files, of which those that were used least recently go when there are more than a limit.

A file is a line with the hash of what follows, and that: what was cut off or changed is known by it.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.errors import Location, PatchgenError
from patchgen_core.files import digest

MOST_BYTES = 16 * 1024 * 1024
"""How large a file may be that is read."""
_DAY = 24 * 60 * 60
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


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

    def remove(self, paths: Iterable[Path]) -> None:
        """Remove some of them; a PatchgenError when one cannot be removed."""
        _remove(paths)

    def clear(self) -> int:
        """Remove every file and return how many; a PatchgenError when one cannot be removed."""
        paths = self.paths()
        _remove(paths)
        return len(paths)


def sign(body: bytes) -> bytes:
    """What is written of a body: its hash stands before it."""
    return b"%s\n%s" % (digest(body).encode(), body)


def check_signed(data: bytes) -> bytes | None:
    """The body of what :func:`sign` gave; None where a byte of it is another one."""
    head, _, body = data.partition(b"\n")
    return body if head == digest(body).encode() else None


def read_signed(file: Path, most: int = MOST_BYTES) -> tuple[bytes, os.stat_result] | None:
    """The body of a signed file of at most so many bytes, and the file's status; None for what is not there, not
    whole, too large, or no file: a pipe is not waited for."""
    try:
        with open(os.open(file, _FLAGS), "rb") as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > most:
                return None
            data = stream.read(most + 1)
    except OSError:
        return None
    body = check_signed(data)
    return (body, status) if body is not None else None


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
