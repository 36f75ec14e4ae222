"""Files of a project with new texts of replacements in them."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from patchgen_core.authoring.edits.config_file import Changes, ConfigFiles, EditedFile
from patchgen_core.authoring.edits.imports import add_imports
from patchgen_core.authoring.edits.needed_imports import needed_names
from patchgen_core.authoring.edits.unused_imports import remove_unused_imports
from patchgen_core.errors import PatchgenError
from patchgen_core.files import read_text
from patchgen_core.project.file_tree import walk_files
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import parse_source
from patchgen_core.upgrade.writing.candidates import Candidate, FileChanges


def rewrite(
    project: Project, files: ConfigFiles, candidates: Sequence[Candidate], pins: Iterable[FileChanges] = ()
) -> dict[Path, EditedFile]:
    """The files that candidates stand in, with their new texts and the imports that these need; `pins` pins configs to
    another version.

    Raises:
        PatchgenError: a file cannot be read.
    """
    changes: dict[Path, Changes] = {}
    renames = [rename for candidate in candidates for rename in candidate.renames]
    texts = [(candidate.path, candidate.changes) for candidate in candidates]
    for path, more in [*texts, *renames, *pins]:
        changes[path] = {**changes.get(path, {}), **more}
    return {
        path: _rewrite_file(project, files.get(path), of_file, [c for c in candidates if c.path == path])
        for path, of_file in changes.items()
    }


def _rewrite_file(project: Project, file: EditedFile, changes: Changes, candidates: Sequence[Candidate]) -> EditedFile:
    texts = [candidate.rebase.merged.text for candidate in candidates]
    early = {name for text in texts for name in needed_names(text)[0]}
    needs = dict.fromkeys(statement for candidate in candidates for statement in candidate.rebase.needs)
    module = add_imports(file.changed(changes).module, needs, early)
    if not any(candidate.is_marked for candidate in candidates):
        dropped = _names(candidate.rebase.ours for candidate in candidates) - _names(texts)
        module = remove_unused_imports(module, dropped, _Importers(project, file.path).may_use)
    return replace(file, module=module)


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
        words: set[str] = set()
        stem = self.module.rpartition(".")[2]
        for path in walk_files(self.project.search_root):
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
            elif isinstance(node, ast.ImportFrom) and (base := _absolute(node, package)):
                names = {alias.name for alias in node.names}
                taken |= names if base == self.module else set()
                modules = {base} if "*" in names else {f"{base}.{name}" for name in names}
            else:
                continue
            if self.module in modules:
                return every_word
        return taken


def _absolute(node: ast.ImportFrom, package: str) -> str:
    try:
        return importlib.util.resolve_name("." * node.level + (node.module or ""), package)
    except ImportError:  # more dots than packages
        return ""
