"""What other files of a project import from one of its files."""

from __future__ import annotations

import ast
import importlib.util
import re
from functools import cached_property
from pathlib import Path

from patchgen_core.errors import PatchgenError
from patchgen_core.files import read_text
from patchgen_core.project.file_tree import walk_files
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import parse_source


class Importers:
    """The files of a project that import from one of its files."""

    def __init__(self, project: Project, path: Path) -> None:
        self.project, self.path = project, path
        self.module = project.module_name(path)

    def may_use(self, name: str) -> bool:
        """Whether one of them may take a name from it."""
        return name in self._words

    @cached_property
    def _words(self) -> set[str]:
        """The names that they import from it; of those that import the module itself, every word."""
        words: set[str] = set()
        stem = self.module.rpartition(".")[2]
        root = self.project.search_root
        for path in walk_files(root) if root.is_dir() else ():
            if path.suffix == ".py" and path != self.path:
                text = read_text(path) or ""
                if stem in text:
                    words |= self._taken(path, text)
        return words

    def _taken(self, path: Path, text: str) -> set[str]:
        every_word = set(re.findall(r"\w+", text))
        try:
            tree = parse_source(path, text.replace("\r\n", "\n")).tree
        except PatchgenError:
            return every_word
        module = self.project.module_name(path)
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        taken: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                modules = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and (base := absolute_module(node, package)):
                names = {alias.name for alias in node.names}
                taken |= names if base == self.module else set()
                modules = {base} if "*" in names else {f"{base}.{name}" for name in names}
            else:
                continue
            if self.module in modules:
                return every_word
        return taken


def absolute_module(node: ast.ImportFrom, package: str) -> str:
    """The module that a statement in a package imports from; empty where it has more dots than there are packages."""
    try:
        return importlib.util.resolve_name("." * node.level + (node.module or ""), package)
    except ImportError:
        return ""
