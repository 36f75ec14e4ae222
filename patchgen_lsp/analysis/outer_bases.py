"""The members of an upstream class that its bases in other modules have, such as ``self.config`` of PreTrainedModel.

Of these modules, which are large, only where members stand is held, and no syntax tree.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchgen_core.authoring.edits.importers import absolute_module
from patchgen_core.errors import PatchgenError
from patchgen_core.files import file_state
from patchgen_core.project.project import Project
from patchgen_core.syntax.nodes import FUNCTIONS
from patchgen_core.syntax.source import SourceFile, read_source
from patchgen_core.upstream.module import UpstreamModule, find_upstream, installed_file
from patchgen_lsp.analysis.open_texts import OpenTexts
from patchgen_lsp.analysis.signature_lines import describe_definition

_DEPTH = 6
"""Modules that a class may be handed on through."""
_Home = tuple[str, str]
"""A module and a name in it."""


@dataclass(frozen=True)
class Member:
    """Where a member stands, and what it is."""

    path: Path
    line: int
    detail: str


@dataclass(frozen=True)
class _Outline:
    """What is held of a class: its members, and its bases."""

    members: Mapping[str, Member] = field(default_factory=dict)
    bases: tuple[_Home, ...] = ()


class OuterBases:
    """Reads the classes of other modules, each once for as long as its file stays the same."""

    def __init__(self, project: Project, sources: OpenTexts) -> None:
        self._project, self._sources = project, sources
        self._outlines: dict[_Home, tuple[object, Path, _Outline]] = {}

    def find(self, source: SourceFile, module: UpstreamModule, bases: Sequence[ast.expr]) -> dict[str, Member]:
        """The members of some bases of a class that other modules define, the nearest of each name.

        ``source`` is the text of the module that names the bases.
        """
        waiting = [home for base in bases if (home := _home(source, base, module.package)) is not None]
        members: dict[str, Member] = {}
        for home in waiting:
            outline = self._read(home)
            members = {**outline.members, **members}
            waiting += [base for base in outline.bases if base not in waiting]
        return members

    def read(self, path: Path) -> SourceFile | None:
        """A file, parsed for this answer alone where nobody else has it."""
        try:
            return self._sources.held(path) or read_source(path)
        except PatchgenError:
            return None

    def _read(self, home: _Home) -> _Outline:
        known = self._outlines.get(home)
        if known is not None and known[0] == file_state(known[1]):
            return known[2]
        path, outline = self._outline(*home, _DEPTH)
        if path is not None:
            self._outlines[home] = (file_state(path), path, outline)
        return outline

    def _outline(self, module: str, name: str, depth: int) -> tuple[Path | None, _Outline]:
        path = self._path(module)
        source = self.read(path) if path is not None else None
        if path is None or source is None:
            return None, _Outline()
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        for node in source.index.classes.get(name, ()):
            bases = tuple(home for base in node.bases if (home := _home(source, base, package, module)))
            return path, _Outline(dict(_members(source, node)), bases)
        for statement, alias in (*source.index.imports.get(name, ()), *source.index.imports.get("*", ())):
            if isinstance(statement, ast.ImportFrom) and depth:
                there = name if alias.name == "*" else alias.name
                found, outline = self._outline(absolute_module(statement, package), there, depth - 1)
                if found is not None:
                    return found, outline
        return None, _Outline()

    def _path(self, module: str) -> Path | None:
        try:
            return find_upstream(module, self._project.upstream).path
        except PatchgenError:
            return self._project.module_path(module) or installed_file(module)


def _home(source: SourceFile, base: ast.expr, package: str, module: str = "") -> _Home | None:
    """The module and the name there of a base, as a file imports it; of a class of the file, ``module``."""
    base = base.value if isinstance(base, ast.Subscript) else base
    dotted = ast.unparse(base)
    head, _, rest = dotted.partition(".")
    for statement, alias in source.index.imports.get(head, ()):
        if isinstance(statement, ast.ImportFrom):
            home = absolute_module(statement, package)
            parts = f"{home}.{alias.name}.{rest}" if rest else f"{home}.{alias.name}"
        else:
            parts = f"{alias.name}.{rest}" if alias.asname else dotted
        owner, _, name = parts.rpartition(".")
        return owner, name
    return (module, head) if module and head in source.index.classes and not rest else None


def _members(source: SourceFile, node: ast.ClassDef) -> Iterator[tuple[str, Member]]:
    """The members that a class declares, or whose methods assign them; the first of each name counts."""
    members: dict[str, Member] = {}
    for statement in node.body:
        if isinstance(statement, FUNCTIONS):
            members.setdefault(statement.name, Member(source.path, statement.lineno, describe_definition(statement)))
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name):
                members.setdefault(
                    target.id, Member(source.path, target.lineno, f"{node.name}: {ast.unparse(statement)}"[:120])
                )
    for each in ast.walk(node):
        if not isinstance(each, (ast.Assign, ast.AnnAssign)):
            continue
        for target in each.targets if isinstance(each, ast.Assign) else [each.target]:
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
                detail = f"{node.name}: {ast.unparse(each)}"[:120]
                members.setdefault(target.attr, Member(source.path, target.lineno, detail))
    yield from members.items()
