"""The state of everything that can be imported and is not the project's own: the files of what is installed.

No file is read. One counts as changed when its size, time of change, inode or time of its inode's change differs, so
that writing over it shows even where its time is set back. What is installed as a wheel, in place or by a path is
looked at alike. Folders of the project are left out: of these contents count, see
:mod:`patchgen_core.checks.kept.closure`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from patchgen_core.config.input_recording import OWN
from patchgen_core.files import digest

MOST = 200_000
"""How many files are looked at; what has more cannot be known."""
_SITES = ("site-packages", "dist-packages")
_UNREAD = (".md", ".pyc", ".pyi", ".rst")
"""The ends of names of files that nothing reads when a model runs."""
METADATA = (".dist-info", ".egg-info")
_HEADERS = os.path.join("torch", "include")


class TooManyFiles(Exception):
    """There is more than can be looked at; names the folder."""


def search_path(own_roots: Iterable[Path]) -> list[str]:
    """Where the process that runs models looks for modules: folders without any are left out."""
    places = dict.fromkeys([*map(str, own_roots), *map(os.path.abspath, sys.path)])
    return [place for place in places if os.path.isfile(place) or any(map(_is_importable, _list(place)))]


def package_states(own_roots: Iterable[Path], base: Path) -> dict[str, str]:
    """The states of packages and modules by their place on ``sys.path``, of a project below ``base`` whose modules lie
    in ``own_roots``, which processes that run models have on it.

    Raises:
        TooManyFiles: a folder of ``sys.path`` has too many files.
    """
    own_roots = tuple(own_roots)
    own = {os.path.realpath(root) for root in own_roots}
    walk = Walk(os.path.realpath(base))
    states: dict[str, str] = {}
    sites, others = list[str](), list[str]()
    for place in _places(own_roots):
        (sites if os.path.basename(place) in _SITES else others).append(place)
    for place in sites:
        states |= walk.entries(place, everything=True)
    installed = {os.path.basename(name).partition(".")[0] for name in states}
    for place in others:
        if _is_standard(place):
            continue
        if place in own or (walk.is_inside(place) and _holds_tests(place)):
            states |= walk.shadows(place, installed)
        else:
            states |= walk.entries(place, everything=False, inside=walk.is_inside(place))
    for folder in map(os.path.realpath, _mapped_folders()):
        if os.path.dirname(folder) not in own:
            states[folder] = walk.state(folder)
    for name in OWN:
        folder = os.path.join(_HOME, name)
        states[folder] = walk.state(folder, inside=True)
    return states


_HOME = os.path.realpath(Path(__file__).parents[3])


def is_own_package(path: str) -> bool:
    """Whether a file is one of this package's."""
    return any(path.startswith(os.path.join(_HOME, name, "")) for name in OWN)


def _places(own_roots: Iterable[Path]) -> dict[str, None]:
    """Where modules are looked for, by this process or by one that runs models."""
    return dict.fromkeys(map(os.path.realpath, [*sys.path, *map(str, own_roots)]))


def is_metadata(path: str, own_roots: Iterable[Path]) -> bool:
    """Whether a file is metadata of what is installed where modules are looked for, whose state is looked at."""
    folder = os.path.dirname(path)
    return folder.endswith(METADATA) and os.path.dirname(os.path.realpath(folder)) in _places(own_roots)


def _is_standard(place: str) -> bool:
    """Whether a place holds the standard library, which the interpreter's version stands for."""
    return place.startswith(os.path.realpath(os.path.dirname(os.__file__))) or place.endswith(".zip")


def _mapped_folders() -> Iterator[str]:
    """The folders of packages that are installed in place by a finder, as setuptools writes them."""
    for finder in sys.meta_path:
        mapping = getattr(sys.modules.get(getattr(finder, "__module__", "")), "MAPPING", None)
        if isinstance(mapping, Mapping):
            yield from (folder for folder in mapping.values() if isinstance(folder, str))


class Walk:
    """Looks at files below folders of ``sys.path``, outside the project below ``base``."""

    def __init__(self, base: str) -> None:
        self.base, self.files = base, 0

    def is_inside(self, place: str) -> bool:
        """Whether a place lies in the project."""
        return place == self.base or place.startswith(f"{self.base}{os.sep}")

    def entries(self, place: str, everything: bool, inside: bool = False) -> dict[str, str]:
        """The state of each package and module of a place; without ``everything``, of what a dotted name can mean.
        Of the project itself only what lies ``inside`` is looked at."""
        if os.path.isfile(place):
            return {place: self.state(place)}
        entries = _list(place)
        wanted = [e for e in entries if everything or _is_importable(e) or e.name.endswith(METADATA)]
        return {e.path: self.state(e.path, inside) for e in wanted if e.name != "__pycache__"}

    def shadows(self, place: str, names: set[str]) -> dict[str, str]:
        """The states of what lies in a folder of the project and is called as something installed is, or tells what
        is installed there."""
        entries = _list(place)
        shadows = [e for e in entries if e.name.endswith(METADATA)]
        alike = (e for e in entries if _is_importable(e))
        shadows += [e for e in alike if e.name.partition(".")[0] in names or _names_standard(e.name)]
        return {e.path: self.state(e.path, inside=True) for e in shadows}

    def state(self, path: str, inside: bool = False) -> str:
        """A hash that stands for the states of a file, or of all files below a folder."""
        lines: list[str] = []
        waiting, links = [path], set[str]()
        while waiting:
            at = waiting.pop()
            if not inside and at == self.base:
                continue
            if os.path.islink(at):
                if (target := os.path.realpath(at)) in links:
                    continue
                links.add(target)
                lines.append(self.link(at, target))
            try:
                scan = os.scandir(at)
            except NotADirectoryError:
                lines.append(self.line(at, os.stat(at)))
                continue
            except OSError:
                lines.append(f"{at} unreadable")
                continue
            with scan:
                for entry in scan:
                    waiting += self._look(entry, lines)
        return digest("\n".join(sorted(lines)).encode("utf-8", "surrogateescape"))[:24]

    def line(self, path: str, status: os.stat_result) -> str:
        """What stands for a file."""
        return f"{path} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"

    def link(self, path: str, target: str) -> str:
        """What stands for a link."""
        return f"{path} {target}"

    def _look(self, entry: os.DirEntry[str], lines: list[str]) -> list[str]:
        name = entry.name
        try:
            if entry.is_dir():
                return [] if name in ("__pycache__", ".git") or entry.path.endswith(_HEADERS) else [entry.path]
            if not name.endswith(_UNREAD):
                lines.append(self.line(entry.path, entry.stat()))
        except OSError:
            lines.append(f"{entry.path} unreadable")
        self.files += 1
        if self.files > MOST:
            raise TooManyFiles(entry.path)
        return []


def _holds_tests(place: str) -> bool:
    """Whether pytest put a folder on the search path, for the tests in it."""
    return any(e.name == "conftest.py" or e.name.startswith("test_") for e in _list(place))


def _list(place: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(place) as scan:
            return sorted(scan, key=lambda entry: entry.name)
    except OSError:
        return []


def _is_importable(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith((".", "__pycache__")):
        return False
    return entry.name.isidentifier() if entry.is_dir() else entry.name.endswith((".py", ".so", ".pyd", ".pth"))


def _names_standard(name: str) -> bool:
    return name.partition(".")[0] in sys.stdlib_module_names
