"""Which folders are watched, and what happens in them."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen_core.errors import PatchgenError, display_path
from patchgen_core.project.project import Project

if TYPE_CHECKING:
    from watchfiles import Change

STEP = 10
"""Milliseconds without a change after which a save is taken to be over."""
_BURST = 60
"""The same for many files at once, as of a checkout; and how often the loop is entered when nothing happens."""
_LONGEST_BURST = 1600
_SUFFIXES = (".py", ".toml", ".diff")
_GRACE = 0.2
"""Seconds in which an editor puts a file back that it has moved away or emptied."""


@dataclass(frozen=True)
class Batch:
    """Files that were written, made or removed, and folders that were made or removed.

    ``is_lost`` says that more may have happened, because the folders were not watched for a moment.
    """

    files: frozenset[Path] = field(default_factory=frozenset)
    folders: frozenset[Path] = field(default_factory=frozenset)
    is_lost: bool = False

    def __bool__(self) -> bool:
        return bool(self.files or self.folders or self.is_lost)

    def __or__(self, other: Batch) -> Batch:
        return Batch(self.files | other.files, self.folders | other.folders, self.is_lost or other.is_lost)


class Watcher:
    """Watches folders, each without those inside it; a PatchgenError when watchfiles is not installed."""

    def __init__(self) -> None:
        try:
            from watchfiles import watch
        except ImportError as error:
            hint = "Install the extra 'watch': pip install 'pytest-patchgen[watch]'."
            raise PatchgenError(f"--watch needs watchfiles: {error}", hint=hint) from None
        self._watch = watch
        self._folders: frozenset[Path] = frozenset()
        self._events: Iterator[set[tuple[Change, str]]] = iter(())

    def follow(self, folders: Collection[Path]) -> bool:
        """Watch these folders from now on, as far as they exist; whether they were not watched before."""
        existing = frozenset(folder for folder in folders if folder.is_dir())
        if existing <= self._folders:
            return False
        self._folders = existing
        self._events = self._watch(
            *existing,
            watch_filter=self._is_wanted,
            recursive=False,
            step=STEP,
            debounce=_LONGEST_BURST,
            rust_timeout=_BURST,
            yield_on_timeout=True,
        )
        try:
            next(self._events)  # only this starts it
        except FileNotFoundError:  # one was removed meanwhile
            self.forget()
        except OSError as error:
            raise PatchgenError(
                f"'{display_path(next(iter(existing)))}' and others cannot be watched: {error}"
            ) from None
        return True

    def forget(self) -> None:
        """Watch nothing: a folder that was removed and made again is not watched any more."""
        self._folders = frozenset()

    def wait(self, outputs: Collection[Path]) -> Batch:
        """What has happened since the last call, nothing after a moment; ``outputs`` are not waited for."""
        batch = more = self._next()
        while more and (batch.folders or len(batch.files.difference(outputs)) > 1):
            more = self._next()
            batch |= more
        _wait_for_contents(batch.files)
        return batch

    def _next(self) -> Batch:
        paths = {Path(path): os.path.isdir(path) for _, path in next(self._events)}
        folders = frozenset(path for path, is_folder in paths.items() if is_folder or path in self._folders)
        return Batch(frozenset(paths) - folders, folders)

    def _is_wanted(self, _: Change, path: str) -> bool:
        name = os.path.basename(path)
        if name.startswith(".") and name != ".ruff.toml":
            return False
        if name.endswith(_SUFFIXES):
            return True
        return name != "__pycache__" and (Path(path) in self._folders or os.path.isdir(path))


def _wait_for_contents(files: Collection[Path]) -> None:
    """Wait until files that an editor has moved away or emptied are back, or it is clear that they stay so."""
    until = time.monotonic() + _GRACE
    while any(not _has_contents(path) for path in files) and time.monotonic() < until:
        time.sleep(STEP / 1000)


def _has_contents(path: Path) -> bool:
    try:
        return os.stat(path).st_size > 0
    except OSError:
        return False


def watched_folders(project: Project) -> set[Path]:
    """The folders of a project that are watched whatever its configs depend on."""
    base, root = project.base, project.search_root
    between = {folder for folder in root.parents if folder.is_relative_to(base)}
    return {base, *between, *_below(root)}


def _below(root: Path) -> Iterator[Path]:
    """A folder and those in it, through links as well, without hidden ones and ``__pycache__``."""
    visited = set()
    for folder, inside, _ in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        if real in visited:
            inside.clear()
            continue
        visited.add(real)
        inside[:] = [name for name in inside if not name.startswith(".") and name != "__pycache__"]
        yield Path(folder)
