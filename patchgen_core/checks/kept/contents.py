"""The state of a machine as far as another one can have the same: contents instead of places, times and inodes.

It is asked for only where results are shared. Contents of what is installed are read once and their hashes kept, with
the state that :mod:`patchgen_core.checks.kept.packages` knows a package by.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from patchgen_core.checks.kept.entries import Contents
from patchgen_core.checks.kept.machine import PERSONAL, interpreter, processor_features, short_state
from patchgen_core.checks.kept.packages import METADATA, Walk
from patchgen_core.checks.kept.place_names import PlaceNames
from patchgen_core.files import digest, file_digest, read_text
from patchgen_core.project.shared_cache_settings import SharedCacheSettings
from patchgen_core.workers.variables import HARMLESS

_SELDOM_READ = ("pip", "pip-*", "uv", "uv-*", "wheel", "wheel-*", "_virtualenv.*", "a1_coverage.pth")
_OF_THE_INSTALLER = (
    "RECORD",
    "INSTALLER",
    "REQUESTED",
    "direct_url.json",
    "SOURCES.txt",
    "uv_cache.json",
    "uv_build.json",
)
_WITH_PATHS = (".pth", "_finder.py")


def portable_machine(
    machine: Mapping[str, str], names: PlaceNames, places: Sequence[str], settings: SharedCacheSettings
) -> dict[str, str]:
    """A machine's states without those of its packages, given all of its states and its search path."""
    variables = (name for name in os.environ if not HARMLESS.fullmatch(name) and not PERSONAL.fullmatch(name))
    own = [name for name in variables if not _fits(name, settings.ignore_variables)]
    return {
        "python": interpreter(),
        "processor": f"{platform.machine()} {processor_features()}",
        "devices": machine["devices"],
        "working directory": names.hide(machine["working directory"]),
        "search path": " ".join(map(names.hide, places)),
        **{f"variable {name}": short_state(names.hide(os.environ[name])) for name in own},
    }


def package_contents(
    machine: Mapping[str, str], names: PlaceNames, known: Contents, settings: SharedCacheSettings
) -> tuple[dict[str, str], Contents]:
    """Hashes of the contents of what a machine's states have as packages, and all that is known of contents then."""
    states: dict[str, str] = {}
    folders: dict[str, tuple[str, str]] = {}
    walk = _ContentWalk(names)
    for name, state in machine.items():
        kind, _, path = name.partition(" ")
        if kind != "package" or _fits(os.path.basename(path), (*_SELDOM_READ, *settings.ignore_packages)):
            continue
        if os.path.isdir(path):
            before = known.packages.get(path)
            contents = before[1] if before is not None and before[0] == state else walk.contents(path)
            folders[path] = (state, contents)
        else:
            contents = walk.contents(path)
        states[f"package {names.hide(path)}"] = contents
    return states, Contents(folders)


class _ContentWalk(Walk):
    """Reads the files of a package, and calls them by their places in it."""

    def __init__(self, names: PlaceNames) -> None:
        super().__init__(os.path.realpath(names.folders["{root}"]))
        self.names, self.top = names, ""

    def contents(self, path: str) -> str:
        """A hash of the contents of a file, or of all files below a folder."""
        self.top = path
        return self.state(path, inside=self.is_inside(path))

    def line(self, path: str, status: os.stat_result) -> str:
        """A file's place and contents; what an installer wrote of itself is left out."""
        name = os.path.basename(path)
        if os.path.dirname(path).endswith(METADATA) and name in _OF_THE_INSTALLER:
            return ""
        return f"{self._place(path)} {self._digest(path)}"

    def link(self, path: str, target: str) -> str:
        """Where a link leads."""
        return f"{self._place(path)} {self._place(target)}"

    def _place(self, path: str) -> str:
        return path.removeprefix(self.top) if path.startswith(self.top) else str(self.names.hide(path))

    def _digest(self, path: str) -> str:
        if path.endswith(_WITH_PATHS):
            return digest(str(self.names.hide(read_text(Path(path)) or "")).encode("utf-8", "surrogateescape"))
        return file_digest(Path(path)) or "unreadable"


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
