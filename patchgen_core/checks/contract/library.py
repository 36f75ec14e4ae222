"""Other modules on disk, read and never imported."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Callable
from pathlib import Path

from patchgen_core.checks.project_code import ProjectCode
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.source import SourceCache, SourceFile
from patchgen_core.upstream.module import find_upstream

_GENERIC = ("generation.utils", "generation.candidate_generator", "modeling_utils", "trainer", "trainer_seq2seq")
"""The modules of transformers that call methods of any model."""
_CALLED = re.compile(r"""\.(\w+)\(|getattr\([\w.]+, ["'](\w+)""")


def package_of(module: str, path: Path) -> str:
    """The package that a module's relative imports start from."""
    return module if path.name == "__init__.py" else module.rpartition(".")[0]


def absolute_module(statement: ast.ImportFrom, package: str) -> str:
    """The module that ``from ... import`` names in a module of a package; empty for more dots than packages."""
    try:
        return importlib.util.resolve_name("." * statement.level + (statement.module or ""), package)
    except ImportError:
        return ""


def imported_from(module: Module, name: str, package: str) -> tuple[str, str] | None:
    """The module that one of a package imports a name from, and what it is called there; None where it does so
    nowhere, or in several places."""
    imports = module.index.imports.get(name, [])
    statement, alias = imports[0] if len(imports) == 1 else (None, None)
    if not isinstance(statement, ast.ImportFrom) or alias is None:
        return None
    return absolute_module(statement, package), alias.name


class Library:
    """Reads each module once: the project's own, and its ``upstream`` before what is installed.

    ``code`` gets to know which modules were asked for.

    Attributes:
        members: what is known of the members of classes, by upstream's package, their module and their name.
    """

    def __init__(self, project: Project, sources: SourceCache, code: ProjectCode | None = None) -> None:
        self.project, self.sources, self._code = project, sources, code
        self.members: dict[str, dict[tuple[str, str], set[str] | None]] = {}
        self._modules: dict[str, Module | None] = {}
        self._called: dict[str, frozenset[str]] = {}

    def module(self, name: str) -> Module | None:
        """A module by its dotted name; None when it is not here or cannot be read."""
        if name not in self._modules:
            self._modules[name] = self._read(name)
        module = self._modules[name]
        if self._code is not None:
            self._code.note_module(name, module.source.path if module is not None else None)
        return module

    def forget(self, is_held: Callable[[SourceFile], bool]) -> None:
        """Forget the modules whose sources nobody else holds any more."""
        self._modules = {n: module for n, module in self._modules.items() if module is None or is_held(module.source)}

    def find(self, module: str, name: str) -> tuple[Module, ast.AST] | None:
        """The class or function that a module defines, or imports from a module that does."""
        home, name = self.origin(module, name)
        source_module = self.module(home)
        definition = source_module.definition(name) if source_module is not None else None
        return (source_module, definition) if source_module is not None and definition is not None else None

    def origin(self, module: str, name: str) -> tuple[str, str]:
        """The module that a name comes from, as far as imports can be read, and what it is called there."""
        seen: set[str] = set()
        while module not in seen:
            seen.add(module)
            source_module = self.module(module)
            if source_module is None:
                break
            package = package_of(module, source_module.source.path)
            module, name = imported_from(source_module, name, package) or (module, name)
        return module, name

    def called_names(self, package: str) -> frozenset[str]:
        """The names of methods that a library's generic code calls on models, as ``generate()`` and trainers do."""
        if package not in self._called:
            texts = [self._text(f"{package}.{part}") for part in _GENERIC]
            self._called[package] = frozenset(a or b for text in texts for a, b in _CALLED.findall(text))
        return self._called[package]

    def _text(self, name: str) -> str:
        """The text of a module of a library; empty when there is none."""
        try:
            path: Path = find_upstream(name, self.project.upstream).path
            return path.read_text(encoding="utf-8")
        except (PatchgenError, OSError, UnicodeDecodeError):
            return ""

    def _read(self, name: str) -> Module | None:
        try:
            path: Path = self.project.module_path(name) or find_upstream(name, self.project.upstream).path
            return Module(self.sources.get(path), name)
        except PatchgenError:
            return None
