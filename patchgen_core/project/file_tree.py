"""The files of a project: those below a folder, and the file of a module."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from patchgen_core.errors import Location, PatchgenError
from patchgen_core.project.pyproject import PYPROJECT, declares_project


def walk_files(folder: Path) -> Iterator[Path]:
    """Files below ``folder``, links included, without hidden folders, ``__pycache__`` and other projects."""

    start = os.fspath(folder)
    visited: set[str] = set()
    waiting = [(start, os.path.realpath(start))]
    while waiting:
        at, real = waiting.pop()
        try:
            with os.scandir(at) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            raise PatchgenError(f"cannot be read: {error.strerror}", Location(at)) from None
        is_project = at != start and any(entry.name == PYPROJECT for entry in entries)
        if real in visited or (is_project and declares_project(Path(at, PYPROJECT))):
            continue
        visited.add(real)
        folders = []
        for entry in entries:
            if not _is_folder(entry):
                yield Path(entry.path)
            elif not entry.name.startswith(".") and entry.name != "__pycache__":
                is_plain = os.name == "posix" and not entry.is_symlink()
                folders.append((entry.path, os.path.join(real, entry.name) if is_plain else os.path.realpath(entry)))
        waiting += reversed(folders)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def module_file(folder: Path, parts: Sequence[str]) -> Path | None:
    """A module's file below a folder; a package wins over a module of its name, as in an import."""
    stem = os.path.join(folder, *filter(None, parts))
    candidates = [os.path.join(stem, "__init__.py"), *([f"{stem}.py"] if parts else [])]
    return next((Path(path) for path in candidates if os.path.isfile(path)), None)
