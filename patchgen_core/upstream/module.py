"""Text and version of an upstream module, without importing it."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from patchgen_core.errors import Location, NameHint, PatchgenError, closest
from patchgen_core.project.file_tree import module_file

_VERSION = re.compile(r"^__version__\s*=\s*[\"']([^\"'\s]+)[\"']", re.MULTILINE)
_METADATA_VERSION = re.compile(r"^Version: (\S+)$", re.MULTILINE | re.IGNORECASE)
_HEAD = 2000
"""How many characters of metadata are read for the version."""


@dataclass(frozen=True)
class UpstreamModule:
    """A module as it stands on disk; its version is ``unknown`` when its distribution has no metadata."""

    module: str
    path: Path
    distribution: str
    version: str

    @property
    def package(self) -> str:
        """The package that relative imports of this module start from."""
        return self.module if self.path.name == "__init__.py" else self.module.rpartition(".")[0]


class InstalledPackages:
    """Where the interpreter has top-level packages, and of which version: each is looked for once, for as long as
    nothing is installed."""

    def __init__(self) -> None:
        self.places = cache(_places)
        self.version = cache(package_version)


def find_upstream(
    module: str,
    search: Sequence[Path] = (),
    location: Location | None = None,
    installed: InstalledPackages | None = None,
) -> UpstreamModule:
    """Resolve a dotted module name to its file, as an import would, but running no code of it. `search` has folders to
    look in before the interpreter's own path, `location` is for the error, `installed` has what was found before.

    Raises:
        PatchgenError: the package is not installed, or has no such module; names the nearest one.
    """
    top, *parts = module.split(".")
    if not all(part.isidentifier() for part in module.split(".")):
        is_path = "/" in module or "\\" in module
        hint = "Write its dotted name, such as 'transformers.models.qwen3.modeling_qwen3'."
        raise PatchgenError(f"'{module}' is not a module name", location, hint if is_path else "Name it absolutely.")
    installed = installed or InstalledPackages()
    places = [folder / top for folder in search if (folder / top).is_dir()] or installed.places(top)
    if not places:
        raise PatchgenError(f"upstream package '{top}' is not installed", location)
    for place in places:
        file = _file_below(place, parts)
        if file is not None:
            return UpstreamModule(module, file, top, installed.version(top, place.parent))
    near = closest(module, _neighbours(places[0], top, parts))
    raise PatchgenError(
        f"upstream has no module '{module}'",
        location,
        NameHint(f"Did you mean '{near}'?", module, near) if near else f"It was looked for in '{places[0]}'.",
    )


def _places(top: str) -> list[Path]:
    """The folders of a top-level package, or the file of a module that stands alone."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    if spec.submodule_search_locations:
        return [Path(folder) for folder in spec.submodule_search_locations]
    return [Path(spec.origin)] if spec.origin and spec.origin.endswith(".py") else []


def installed_file(module: str, installed: InstalledPackages | None = None) -> Path | None:
    """The file of an installed module, found without executing it or its packages."""
    top, *parts = module.split(".")
    files = (_file_below(place, parts) for place in (installed or InstalledPackages()).places(top))
    return next(filter(None, files), None)


def _file_below(place: Path, parts: list[str]) -> Path | None:
    if place.suffix == ".py":
        return None if parts else place
    return module_file(place, parts)


def package_version(top: str, folder: Path) -> str:
    """The version of the distribution in a folder; else the package's literal ``__version__``, as in a source
    tree without metadata; else that of the installed distribution of its name."""
    beside = distribution_version(top, folder)
    if beside is not None:
        return beside
    init = folder / top / "__init__.py"
    literal = _VERSION.search(init.read_text(encoding="utf-8", errors="replace")) if init.is_file() else None
    return literal[1] if literal is not None else installed_version(top) or "unknown"


def installed_version(distribution: str) -> str:
    """The version of an installed distribution; empty when it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def distribution_version(name: str, folder: Path) -> str | None:
    """The version of the distribution of a name whose metadata lies in a folder; None when none does.

    What :mod:`importlib.metadata` says. That takes longer to import than all else that a check needs, so it is asked
    only where the one file that holds the version is not the plain case.
    """
    normalized = normal_name(name)
    try:
        infos = [entry for entry in os.listdir(folder) if entry.lower().endswith((".dist-info", ".egg-info"))]
    except OSError:
        return _asked_version(name, folder)
    results = [info for info in infos if normal_name(info.rpartition(".")[0].partition("-")[0]) == normalized]
    if not results and folder.suffix != ".egg":
        return None
    return (_read_version(folder / results[0]) if len(results) == 1 else None) or _asked_version(name, folder)


@lru_cache(1024)
def normal_name(name: str) -> str:
    """The name of a distribution as comparisons have it."""
    return re.sub(r"[-_.]+", "_", name).lower()


def _read_version(info: Path) -> str | None:
    """The version in a folder of metadata; None when it does not say it on a line of its head."""
    try:
        with (info / "METADATA").open(encoding="utf-8") as file:
            head = file.read(_HEAD).partition("\n\n")[0]
    except (OSError, UnicodeDecodeError):
        return None
    versions = _METADATA_VERSION.findall(head)
    return str(versions[0]) if len(versions) == 1 else None


def _asked_version(name: str, folder: Path) -> str | None:
    from importlib.metadata import DistributionFinder, MetadataPathFinder

    context = DistributionFinder.Context(name=name, path=[str(folder)])
    return next((entry.version for entry in MetadataPathFinder.find_distributions(context)), None)


def _neighbours(folder: Path, top: str, parts: list[str]) -> list[str]:
    """Modules in the deepest folder of the path that exists, and their children of the wanted name's kind."""
    names = [top]
    if not folder.is_dir():
        return names
    while parts and (folder / parts[0]).is_dir():
        folder, names, parts = folder / parts[0], [*names, parts[0]], parts[1:]
    results = []
    for entry in sorted(os.scandir(folder), key=lambda e: e.name):
        if entry.name.endswith(".py") and entry.name != "__init__.py":
            results.append(".".join([*names, entry.name[:-3]]))
        elif entry.is_dir() and len(parts) == 2:
            guess = parts[1].replace(parts[0], entry.name)
            if Path(entry.path, f"{guess}.py").is_file():
                results.append(".".join([*names, entry.name, guess]))
    return results
