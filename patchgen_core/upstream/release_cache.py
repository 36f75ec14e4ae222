"""The releases that a cache keeps on disk: which there are, and removing them."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.errors import Location, PatchgenError
from patchgen_core.project.cache_folder import is_prepared

FILES = "files"
"""The folder beside a release's wheel that holds what is unpacked of it."""

_TEMPORARY = ".download-"
_DAY = 24 * 60 * 60
_VERSION = re.compile(r"\d[\w.!+]*(?:-[0-9a-f]{12})?")


@dataclass(frozen=True)
class KeptRelease:
    """A release that a cache keeps, with the size of its files in bytes. The version of one of a wheel that was at
    hand has the beginning of the wheel's hash."""

    distribution: str
    version: str
    folder: Path
    size: int

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


def kept_releases(folder: Path) -> tuple[KeptRelease, ...]:
    """The releases below a folder, by name and then from the oldest on."""
    releases = []
    for home in _homes(folder):
        for place in home.iterdir():
            if _VERSION.fullmatch(place.name) and ((place / FILES).is_dir() or any(place.glob("*.whl"))):
                releases.append(KeptRelease(home.name, place.name, place, _size(place)))
    return tuple(sorted(releases, key=lambda release: (release.distribution, _numbers(release.version))))


def find_wheels(home: Path) -> list[Path]:
    """The wheels of a distribution's releases, by version. Other processes may download and remove some meanwhile."""
    wheels: list[Path] = []
    with suppress(OSError):
        for name in os.listdir(home):
            if _VERSION.fullmatch(name):
                with suppress(OSError):
                    wheels += (home / name / file for file in os.listdir(home / name) if file.endswith(".whl"))
    return sorted(wheels)


def remove_releases(folder: Path) -> int:
    """Remove all releases below a folder, and nothing else that lies there; returns how many there were.

    Raises:
        PatchgenError: one cannot be removed.
    """
    releases = kept_releases(folder)
    for release in releases:
        for wheel in release.folder.glob("*.whl"):
            with _removing(wheel):
                wheel.unlink()
        if (release.folder / FILES).is_dir():
            with _removing(release.folder / FILES):
                shutil.rmtree(release.folder / FILES)
        with suppress(OSError):  # it holds something else
            release.folder.rmdir()
    for home in _homes(folder):
        remove_stale(home, age=0)
    return len(releases)


def _homes(folder: Path) -> list[Path]:
    """The folders of distributions, which carry the mark of a cache: no other folder is touched."""
    return sorted(home for home in folder.glob("*") if is_prepared(home))


@contextmanager
def downloading(folder: Path) -> Iterator[Path]:
    """A folder to download to, which is gone afterwards. A process that is killed leaves it, but no release.

    Raises:
        PatchgenError: it cannot be made.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=_TEMPORARY, dir=folder, ignore_cleanup_errors=True) as temporary:
            yield Path(temporary)
    except OSError as error:
        raise PatchgenError(f"cannot be written: {error.strerror}", Location(str(folder))) from None


def remove_stale(folder: Path, age: int = _DAY) -> None:
    """Remove what downloads left that were killed longer ago than ``age`` seconds."""
    for left in folder.glob(f"{_TEMPORARY}*"):
        try:
            is_old = left.stat().st_mtime <= time.time() - age
        except OSError:
            continue
        if is_old:
            shutil.rmtree(left, ignore_errors=True)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version.partition("-")[0])))


def _size(folder: Path) -> int:
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:
                continue
    return total


@contextmanager
def _removing(path: Path) -> Iterator[None]:
    try:
        with suppress(FileNotFoundError):  # another process removes it, too
            yield
    except OSError as error:
        raise PatchgenError(f"cannot be removed: {error.strerror}", Location(str(path))) from None
