"""The table ``[tool.patchgen]`` of a repository that has none, worked out from its folders."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen_core.authoring.init.additions import append
from patchgen_core.errors import Location, PatchgenError, display_path
from patchgen_core.files import read_text, write_files
from patchgen_core.project.file_tree import walk_files
from patchgen_core.project.project import CONFIG_SUFFIX, Project
from patchgen_core.project.pyproject import PYPROJECT, key_line, parse_toml, read_table, read_toml

_NO_PACKAGES = frozenset(["tests", "test", "docs", "examples", "benchmarks", "scripts", "tools"])
_SOURCE_FOLDERS = ("src", "python", "lib")
_MODELS = "models"
_HINT = "Name the folder: --search-root acme/models."


@dataclass(frozen=True)
class ProjectTable:
    """A ``pyproject.toml`` with the new table at its end.

    Attributes:
        table: the lines that are added.
        text: the whole file.
        project: what the table says.
    """

    path: Path
    table: str
    text: str
    project: Project

    def write(self) -> None:
        """Write the file; a PatchgenError when it cannot be."""
        write_files([(self.path, self.text)])


def make_table(start: Path, search_root: Path | None = None, package_prefix: str = "") -> ProjectTable:
    """The table for the repository around a folder; nothing is written, and what the file has stays as it is.

    Args:
        search_root: folder of the configs, from ``start``; by default that of the configs that are there, or
            ``models`` in the one package.
        package_prefix: the package that it is; by default by its path.

    Raises:
        PatchgenError: there is a table already, the file is not valid, or it cannot be told which package is meant.
    """
    start = Path(os.path.abspath(start))
    path = find_pyproject(start)
    base, tables = path.parent, {}
    if path.is_file():
        if read_table(path) is not None:
            location = Location(str(path), key_line(path, "patchgen", "tool"))
            raise PatchgenError("there is already a [tool.patchgen] table", location, "Change it there.")
        tables = read_toml(path)
    root = start / search_root if search_root is not None else _find_search_root(base, package_prefix, tables)
    root = Path(os.path.abspath(root))
    if base not in root.parents:
        message = f"'{display_path(root)}' is not a folder below '{display_path(base)}', where {PYPROJECT} lies"
        raise PatchgenError(message, hint=_HINT)
    prefix = package_prefix or _package_name(root, base)
    if not all(part.isidentifier() for part in prefix.split(".")):
        raise PatchgenError(f"'{prefix}' is not a name of a package", hint="Name it: --package-prefix acme.models.")
    folder = root.relative_to(base).as_posix()
    table = _table_text(folder, prefix)
    text = _append(path, table, {"search_root": folder, "package_prefix": prefix, "diffs": True})
    return ProjectTable(path, table, text, Project(root, prefix, diffs=True, root=base))


def find_pyproject(start: Path) -> Path:
    """The nearest ``pyproject.toml`` from a folder up to its repository's root; that of the folder where none is."""
    for folder in (start, *start.parents):
        if (folder / PYPROJECT).is_file():
            return folder / PYPROJECT
        if (folder / ".git").exists():
            break
    return start / PYPROJECT


def _table_text(folder: str, prefix: str) -> str:
    return (
        "[tool.patchgen]\n"
        f"search_root = {json.dumps(folder, ensure_ascii=False)}\n"
        f'package_prefix = "{prefix}"\n'
        "diffs = true  # check in what changed against upstream, beside each module\n"
    )


def _append(path: Path, table: str, values: dict[str, Any]) -> str:
    """A file's text with a table at its end; a PatchgenError where the file has a form that takes none there."""
    old = read_text(path) or ""
    text = append(old, table)
    try:
        is_added = parse_toml(text).get("tool", {}).get("patchgen") == values
    except ValueError:
        is_added = False
    if not is_added:
        hint = f"Write it into the file yourself:\n{table}".rstrip()
        raise PatchgenError(
            "no table can be added at the end, because of how 'tool' is written", Location(str(path)), hint
        )
    return text


# --- where configs lie -----------------------------------------------------------------------------


def _find_search_root(base: Path, package_prefix: str, tables: dict[str, Any]) -> Path:
    if package_prefix:
        parts = package_prefix.split(".")
        roots = (base / folder for folder in _SOURCE_FOLDERS if (base / folder / parts[0]).is_dir())
        return next(roots, base).joinpath(*parts)
    configs = [path for path in walk_files(base) if path.name.endswith(CONFIG_SUFFIX)]
    folders = {path.parent for path in configs if "site-packages" not in path.parts}
    if folders:
        common = Path(os.path.commonpath(folders))
        return common.parent if folders == {common} and common.parent != base else common
    return _find_package(base, tables) / _MODELS


def _find_package(base: Path, tables: dict[str, Any]) -> Path:
    """The one package of a repository, or the one that its distribution is called after."""
    packages = list(_packages(base))
    project = tables.get("project")
    name = str(project.get("name", "")) if isinstance(project, dict) else ""
    namesake = [package for package in packages if package.name == name.lower().replace("-", "_").replace(".", "_")]
    if len(chosen := namesake or packages) == 1:
        return chosen[0]
    paths = ", ".join(f"'{display_path(package)}'" for package in packages)
    message = f"the package with the patch configs is ambiguous: there are {paths}"
    raise PatchgenError(message if packages else f"there is no package in '{display_path(base)}'", hint=_HINT)


def _packages(base: Path) -> Iterator[Path]:
    for folder in (base, *(base / name for name in _SOURCE_FOLDERS)):
        inits = sorted(folder.glob("*/__init__.py"))
        yield from (init.parent for init in inits if init.parent.name not in (*_NO_PACKAGES, *_SOURCE_FOLDERS))


def _package_name(folder: Path, base: Path) -> str:
    """The package that a folder is, or will be: its path, without a folder of sources."""
    first, *rest = folder.relative_to(base).parts
    is_source_folder = rest and first in _SOURCE_FOLDERS and not (base / first / "__init__.py").is_file()
    return ".".join(rest if is_source_folder else (first, *rest))
