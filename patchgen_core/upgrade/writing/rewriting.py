"""Files of a project with new texts of replacements in them."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from patchgen_core.authoring.config_imports import additions, needed_names
from patchgen_core.authoring.line_edits import LineEdit, Lines, read_lines
from patchgen_core.authoring.unused_imports import removals
from patchgen_core.errors import PatchgenError
from patchgen_core.files import read_text
from patchgen_core.project.project import Project, walk_files
from patchgen_core.syntax.source import parse_source, read_source
from patchgen_core.upgrade.writing.candidates import Candidate


def rewrite(
    project: Project, candidates: Iterable[Candidate], edits: Iterable[tuple[Path, LineEdit]] = ()
) -> dict[Path, Lines]:
    """The files that candidates stand in, with their new texts and the imports that these need.

    Args:
        project: the project.
        candidates: the replacements to write.
        edits: further edits, each with its file.

    Raises:
        PatchgenError: a file cannot be read, or is not valid Python afterwards.
    """
    found: dict[Path, list[Candidate]] = {}
    more: dict[Path, list[LineEdit]] = {}
    for candidate in candidates:
        found.setdefault(candidate.path, []).append(candidate)
        for path, edit in candidate.renames:
            more.setdefault(path, []).append(edit)
    for path, edit in edits:
        more.setdefault(path, []).append(edit)
    paths = dict.fromkeys([*found, *more])
    return {path: _rewritten(project, path, found.get(path, []), more.get(path, [])) for path in paths}


def _rewritten(project: Project, path: Path, candidates: Sequence[Candidate], more: Sequence[LineEdit]) -> Lines:
    lines, source = read_lines(path), read_source(path)
    edits = [*more, *(edit for candidate in candidates for edit in candidate.edits)]
    texts = [candidate.rebase.merged.text for candidate in candidates]
    early = {name for text in texts for name in needed_names(text)[0]}
    needs = [statement for candidate in candidates for statement in candidate.rebase.needs]
    after = lines.edited([*edits, *additions(source, needs, early)])
    if any(candidate.is_marked for candidate in candidates):
        return after
    dropped = _names(candidate.rebase.ours for candidate in candidates) - _names(texts)
    importers = _Importers(project, path)
    return after.edited(removals(parse_source(path, after.text), dropped, importers.may_use))


def _names(texts: Iterable[str]) -> set[str]:
    return {name for text in texts for names in needed_names(text) for name in names}


class _Importers:
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
        found: set[str] = set()
        stem = self.module.rpartition(".")[2]
        for path in walk_files(self.project.search_root):
            if path.suffix == ".py" and path != self.path:
                text = read_text(path) or ""
                if stem in text:
                    found |= self._taken(path, text)
        return found

    def _taken(self, path: Path, text: str) -> set[str]:
        try:
            tree = parse_source(path, text.replace("\r\n", "\n")).tree
        except PatchgenError:
            return set(re.findall(r"\w+", text))
        module = self.project.module_name(path)
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        found: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (base := _absolute(node, package)):
                names = {alias.name for alias in node.names}
                if base == self.module:
                    found |= set(re.findall(r"\w+", text)) if "*" in names else names
                elif any(f"{base}.{name}" == self.module for name in names):
                    found |= set(re.findall(r"\w+", text))
            elif isinstance(node, ast.Import) and any(alias.name == self.module for alias in node.names):
                found |= set(re.findall(r"\w+", text))
        return found


def _absolute(node: ast.ImportFrom, package: str) -> str:
    try:
        return importlib.util.resolve_name("." * node.level + (node.module or ""), package)
    except ImportError:  # more dots than packages
        return ""
