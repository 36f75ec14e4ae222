"""Names that a project's files define and share: where each is defined, and every place that means it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from patchgen_core.authoring.edits.importers import absolute_module
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.files import read_text
from patchgen_core.project.file_tree import walk_files
from patchgen_core.project.project import Project
from patchgen_core.syntax.nodes import DEFINITIONS
from patchgen_core.syntax.scope_analysis import find_scopes
from patchgen_core.syntax.source import SourceFile
from patchgen_lsp.analysis.open_texts import OpenTexts

Span = tuple[int, int]
"""The offsets of a name in a text."""


@dataclass(frozen=True)
class SharedName:
    """A name at the top level of a module of the project."""

    name: str
    home: Path


@dataclass(frozen=True)
class Occurrence:
    """A place that means a shared name."""

    source: SourceFile
    span: Span


class SharedNames:
    """Looks for names in the files of a project, as they are in the editor."""

    def __init__(self, project: Project, sources: OpenTexts) -> None:
        self.project, self.sources = project, sources

    def resolve(self, source: SourceFile, name: str) -> SharedName | None:
        """What a global name of a file is: defined there, or imported from another file of the project; None for a
        name that no file of the project defines."""
        visited = set[tuple[Path, str]]()
        while (source.path, name) not in visited:
            visited.add((source.path, name))
            if _defines(source, name):
                return SharedName(name, source.path)
            place = next(self._imports_of(source, name), None)
            path = self._path_of(place[0]) if place is not None else None
            if place is None or path is None:
                return None
            source, name = self.sources.get(path), place[1]
        return None

    def find_occurrences(self, shared: SharedName) -> list[Occurrence]:
        """Every place of the project that means a name.

        Raises:
            PatchgenError: a file may mean it and cannot be read, or takes all names of a module that has it.
        """
        homes, files = {self.project.module_name(shared.home)}, {shared.home}
        occurrences = list(self._in_home(self.sources.get(shared.home), shared.name))
        while True:
            new = [path for path in self._mentioning(shared.name, homes) if path not in files]
            before = len(files)
            for path in new:
                source = self.sources.get(path)
                places, hands_on = self._in_importer(source, shared.name, homes)
                if places:
                    files.add(path)
                    occurrences += places
                    homes |= {self.project.module_name(path)} if hands_on else set()
            if len(files) == before:
                return occurrences

    def _mentioning(self, name: str, homes: set[str]) -> list[Path]:
        """The files whose text has a name, and that of a module that has it, or that may import from their package."""
        stems = [home.rpartition(".")[2] for home in homes]
        return [
            path
            for path, text in self._texts.items()
            if name in text and (any(stem in text for stem in stems) or "from ." in text)
        ]

    @cached_property
    def _texts(self) -> dict[Path, str]:
        root = self.project.search_root
        paths = [path for path in walk_files(root) if path.suffix == ".py"] if root.is_dir() else []
        return {
            path: self.sources.text(path) if self.sources.is_open(path) else read_text(path) or "" for path in paths
        }

    def _imports_of(self, source: SourceFile, name: str) -> Iterator[tuple[str, str]]:
        """The modules that a file imports a name from, with what it is called there."""
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        yield absolute_module(node, self._package(source.path)), alias.name

    def _package(self, path: Path) -> str:
        module = self.project.module_name(path)
        return module if path.name == "__init__.py" else module.rpartition(".")[0]

    def _path_of(self, module: str) -> Path | None:
        path = self.project.module_path(module) if module else None
        return path if path is not None and path.is_relative_to(self.project.search_root) else None

    def _in_home(self, source: SourceFile, name: str) -> Iterator[Occurrence]:
        for node in ast.walk(source.tree):
            if isinstance(node, DEFINITIONS) and node in source.tree.body and node.name == name:
                keyword = "class" if isinstance(node, ast.ClassDef) else "def"
                match = re.compile(rf"{keyword}\s+").search(source.text, source.start(node))
                assert match is not None
                yield Occurrence(source, (match.end(), match.end() + len(name)))
        yield from _assigned_occurrences(source, name)
        yield from _read_occurrences(source, name)

    def _in_importer(self, source: SourceFile, name: str, homes: set[str]) -> tuple[list[Occurrence], bool]:
        """The places of another file, and whether others may import the name from there."""
        places, hands_on = list[Occurrence](), False
        modules = set[str]()
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ImportFrom):
                base = absolute_module(node, self._package(source.path))
                for alias in node.names:
                    if base in homes and alias.name == "*":
                        message = f"'{name}' may be meant here, where all names of its module are imported"
                        raise PatchgenError(message, Location(str(source.path), node.lineno))
                    if base in homes and alias.name == name:
                        places.append(_alias_occurrence(source, alias))
                        hands_on = hands_on or alias.asname in (None, name)
                    elif f"{base}.{alias.name}" in homes:
                        modules.add(alias.asname or alias.name)
            elif isinstance(node, ast.Import):
                modules |= {alias.asname or alias.name for alias in node.names if alias.name in homes}
        if hands_on:
            places += _read_occurrences(source, name)
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Attribute) and node.attr == name and ast.unparse(node.value) in modules:
                end = source.end(node)
                places.append(Occurrence(source, (end - len(name), end)))
        return places, hands_on


def _defines(source: SourceFile, name: str) -> bool:
    own = [node.name for node in source.tree.body if isinstance(node, DEFINITIONS)]
    return name in own or any(True for _ in _assigned_occurrences(source, name))


def _assigned_occurrences(source: SourceFile, name: str) -> Iterator[Occurrence]:
    """The places of the top level that assign a name."""
    for statement in source.tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
        for target in targets:
            if isinstance(target, ast.Name) and target.id == name:
                yield Occurrence(source, (source.start(target), source.end(target)))


def _read_occurrences(source: SourceFile, name: str) -> Iterator[Occurrence]:
    """The places that read a global name, in the strings of annotations as well."""
    for reference in find_scopes(source.tree).references:
        if name in reference.names and reference.is_global(name):
            start, end = source.start(reference.node), source.end(reference.node)
            pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
            for match in pattern.finditer(source.text, start, end):
                yield Occurrence(source, match.span())


def _alias_occurrence(source: SourceFile, alias: ast.alias) -> Occurrence:
    line = source.line_starts[alias.lineno - 1]
    prefix = source.lines[alias.lineno - 1].encode()[: alias.col_offset].decode()
    start = line + len(prefix)
    return Occurrence(source, (start, start + len(alias.name)))
