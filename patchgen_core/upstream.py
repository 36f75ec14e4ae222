"""Text and version of an upstream module, without importing it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.errors import Location, PatchgenError, closest
from patchgen_core.project import module_file

_VERSION = re.compile(r"^__version__\s*=\s*[\"']([^\"'\s]+)[\"']", re.MULTILINE)


@dataclass(frozen=True)
class UpstreamModule:
    """A module as it stands on disk.

    Attributes:
        module: dotted name.
        path: its file.
        distribution: name of the distribution it belongs to.
        version: that distribution's version; ``unknown`` when there is no metadata.
    """

    module: str
    path: Path
    distribution: str
    version: str

    @property
    def package(self) -> str:
        """The package that relative imports of this module start from."""
        return self.module if self.path.name == "__init__.py" else self.module.rpartition(".")[0]


def find_upstream(module: str, search: Sequence[Path] = (), location: Location | None = None) -> UpstreamModule:
    """Resolve a module name to its file, as an import would, but running no code of it.

    Args:
        module: dotted name, such as ``transformers.models.llama.modeling_llama``.
        search: folders to look in before the interpreter's own path.
        location: who asks, for the error.

    Raises:
        PatchgenError: the package is not installed, or has no such module; names the nearest one.
    """
    top, *parts = module.split(".")
    if not all(part.isidentifier() for part in module.split(".")):
        is_path = "/" in module or "\\" in module
        hint = "Write its dotted name, such as 'transformers.models.qwen3.modeling_qwen3'."
        raise PatchgenError(f"'{module}' is not a module name", location, hint if is_path else "Name it absolutely.")
    places = [folder / top for folder in search if (folder / top).is_dir()] or _places(top)
    if not places:
        raise PatchgenError(f"upstream package '{top}' is not installed", location)
    for place in places:
        found = _file_below(place, parts)
        if found is not None:
            return UpstreamModule(module, found, top, _version(top, place.parent))
    near = closest(module, _neighbours(places[0], top, parts))
    raise PatchgenError(
        f"upstream has no module '{module}'",
        location,
        f"Did you mean '{near}'?" if near else f"It was looked for in '{places[0]}'.",
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


def installed_file(module: str) -> Path | None:
    """The file of an installed module, found without executing it or its packages."""
    top, *parts = module.split(".")
    found = (_file_below(place, parts) for place in _places(top))
    return next(filter(None, found), None)


def _file_below(place: Path, parts: list[str]) -> Path | None:
    if place.suffix == ".py":
        return None if parts else place
    return module_file(place, parts)


def _version(top: str, folder: Path) -> str:
    """The version of the distribution in a folder; else the package's literal ``__version__``, as in a source
    tree without metadata; else that of the installed distribution of its name."""
    beside = importlib.metadata.MetadataPathFinder.find_distributions(
        importlib.metadata.DistributionFinder.Context(name=top, path=[str(folder)])
    )
    for distribution in beside:
        return distribution.version
    init = folder / top / "__init__.py"
    literal = _VERSION.search(init.read_text(encoding="utf-8", errors="replace")) if init.is_file() else None
    if literal is not None:
        return literal[1]
    try:
        return importlib.metadata.version(top)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _neighbours(folder: Path, top: str, parts: list[str]) -> list[str]:
    """Modules in the deepest folder of the path that exists, and their children of the wanted name's kind."""
    names = [top]
    if not folder.is_dir():
        return names
    while parts and (folder / parts[0]).is_dir():
        folder, names, parts = folder / parts[0], [*names, parts[0]], parts[1:]
    found = []
    for entry in sorted(os.scandir(folder), key=lambda e: e.name):
        if entry.name.endswith(".py") and entry.name != "__init__.py":
            found.append(".".join([*names, entry.name[:-3]]))
        elif entry.is_dir() and len(parts) == 2:
            guess = parts[1].replace(parts[0], entry.name)
            if Path(entry.path, f"{guess}.py").is_file():
                found.append(".".join([*names, entry.name, guess]))
    return found
