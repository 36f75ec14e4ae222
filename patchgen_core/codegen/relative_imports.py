"""Relative imports in a config's code: meant from the config's package or from the generated module's.

Which of the two is decided by which module there is. Files are read; nothing is imported.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen_core.codegen.imports import absolute_imports, relative_base
from patchgen_core.config.input_recording import input_name
from patchgen_core.errors import Location, PatchgenError, closest
from patchgen_core.project.project import Project
from patchgen_core.syntax.nodes import guarded_lines
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upstream.module import installed_file


@dataclass(frozen=True)
class ImportPlaces:
    """The modules that a generated module can import.

    Attributes:
        package: the generated module's.
        record: is told what was looked for, as a kind and name of input, and its state.
    """

    package: str
    project: Project
    sources: SourceCache
    record: Callable[[str, str, Any], None]

    def config_package(self, location: Location) -> str:
        """The package of the config that has a line."""
        return self.project.module_name(Path(location.file)).rpartition(".")[0]

    def has(self, base: str, node: ast.ImportFrom) -> bool:
        """Whether there is what a relative import names, when it starts from a package."""
        if node.module:
            return self._has_module(f"{base}.{node.module}")
        names = [alias.name for alias in node.names]
        return all(
            self._has_module(base if name == "*" else f"{base}.{name}") or self._binds(base, name) for name in names
        )

    def modules_beside(self, module: str) -> list[str]:
        """The modules of the package that a module would stand in."""
        parent = module.rpartition(".")[0]
        file = self.project.module_path(parent)
        folder = file.parent if file is not None else self.project.package_folder(parent)
        names = (path.stem if path.suffix == ".py" else path.name for path in sorted(folder.glob("*")))
        return [f"{parent}.{name}" for name in names if name.isidentifier()]

    def _has_module(self, name: str) -> bool:
        path = self.project.module_path(name)
        self.record("module", name, input_name(self.project, path) if path else None)
        if path is not None:
            return True
        prefix = self.project.package_prefix
        if name == prefix or name.startswith(f"{prefix}."):
            is_folder = self.project.package_folder(name).is_dir()
            self.record("folder", name, is_folder)
            return is_folder
        path = installed_file(name)
        self.record("installed", name, input_name(self.project, path) if path else None)
        return path is not None

    def _binds(self, package: str, name: str) -> bool:
        path = self.project.module_path(package)
        self.record("module", package, input_name(self.project, path) if path else None)
        if path is None:
            return False
        index = self.sources.get(path).index
        return name in index.names or "*" in index.imports or "__getattr__" in index.functions


def absolute_code(text: str, package: str, location: Location, places: ImportPlaces | None) -> str:
    """A config's code, which starts at a line, with absolute imports; without ``places`` they start from ``package``.

    A PatchgenError has the line of an import that names a module in both packages, or in neither.
    """
    if places is None:
        return absolute_imports(text, package, location)
    guarded: set[int] | None = None
    package = package or places.config_package(location)  # a script has none

    def base_of(node: ast.ImportFrom, at: Location) -> str:
        nonlocal guarded
        bases = dict.fromkeys(filter(None, (relative_base(node, p) for p in (package, places.package))))
        existing = [base for base in bases if places.has(base, node)]
        if len(existing) == 1:
            return existing[0]
        if guarded is None:
            guarded = guarded_lines(ast.parse(text).body)
        if bases and not existing and node.lineno in guarded:
            return next(iter(bases))
        raise _unclear_import(node, list(bases), existing, at, places)

    return absolute_imports(text, base_of, location)


def _unclear_import(
    node: ast.ImportFrom, bases: Sequence[str], existing: Sequence[str], location: Location, places: ImportPlaces
) -> PatchgenError:
    names = ", ".join(alias.name for alias in node.names)
    statement = f"relative import 'from {'.' * node.level}{node.module or ''} import {names}'"
    modules = [f"{base}.{node.module or node.names[0].name}" for base in bases]
    if existing:
        message = f"{statement} names '{modules[0]}' from the config and '{modules[1]}' from the generated module"
        return PatchgenError(message, location, "Both exist: write the one that you mean as an absolute import.")
    if not bases:
        return PatchgenError(f"{statement} leads out of package '{places.package}'", location)
    message = f"{statement} names no module: there is no {' and no '.join(repr(module) for module in modules)}"
    modules_by_name = {name.rpartition(".")[2]: name for module in modules for name in places.modules_beside(module)}
    near = closest(modules[0].rpartition(".")[2], modules_by_name)
    return PatchgenError(message, location, f"Did you mean '{modules_by_name[near]}'?" if near else "")
