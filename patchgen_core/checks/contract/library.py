"""Other modules on disk, read and never imported."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upstream.module import find_upstream


class Library:
    """Reads each module once: the project's own, and its ``upstream`` before what is installed."""

    def __init__(self, project: Project, sources: SourceCache) -> None:
        self.project, self.sources = project, sources
        self._modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        """A module by its dotted name; None when it is not here or cannot be read."""
        if name not in self._modules:
            self._modules[name] = self._read(name)
        return self._modules[name]

    def find(self, module: str, name: str) -> tuple[Module, ast.AST] | None:
        """The class or function that a module defines, or imports from a module that does."""
        seen: set[str] = set()
        while module not in seen:
            seen.add(module)
            source_module = self.module(module)
            if source_module is None:
                return None
            definition = source_module.definition(name)
            if definition is not None:
                return source_module, definition
            imports = source_module.index.imports.get(name, [])
            statement, alias = imports[0] if len(imports) == 1 else (None, None)
            if not isinstance(statement, ast.ImportFrom) or alias is None:
                return None
            package = module if source_module.source.path.name == "__init__.py" else module.rpartition(".")[0]
            try:
                module = importlib.util.resolve_name("." * statement.level + (statement.module or ""), package)
            except ImportError:
                return None
            name = alias.name
        return None

    def _read(self, name: str) -> Module | None:
        try:
            path: Path = self.project.module_path(name) or find_upstream(name, self.project.upstream).path
            return Module(self.sources.get(path), name)
        except PatchgenError:
            return None
