"""Files of a project whose ``if TYPE_CHECKING:`` block is to import other names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import libcst as cst

from patchgen_core.authoring.edits.config_file import ConfigFiles, EditedFile
from patchgen_core.authoring.edits.import_layout import width_of
from patchgen_core.authoring.edits.importers import Importers, absolute_module
from patchgen_core.authoring.type_imports.guard import change_guard, guarded_imports
from patchgen_core.authoring.type_imports.module_users import ModuleUser, find_users
from patchgen_core.authoring.type_imports.undefined_names import find_names
from patchgen_core.build.layout import follow_layout
from patchgen_core.build.normalize import RawText
from patchgen_core.build.ruff_setup import RuffSettings
from patchgen_core.config.loading import Loader
from patchgen_core.errors import PatchgenError
from patchgen_core.files import write_files
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache, SourceFile
from patchgen_core.upstream.module import find_upstream


def mend_type_imports(paths: Iterable[Path], find_project: Callable[[Path], Project]) -> tuple[Path, ...]:
    """Write the files of :func:`complete_type_imports` for configs, those of a project together.

    Returns:
        The files that were written.

    Raises:
        PatchgenError: one cannot be read or written, or ruff cannot run with a project's settings.
    """
    projects: dict[Path, tuple[Project, list[Path]]] = {}
    for path in dict.fromkeys(paths):
        project = find_project(path)
        projects.setdefault(project.search_root, (project, []))[1].append(path)
    written: list[Path] = []
    for project, own in projects.values():
        files = complete_type_imports(project, own, SourceCache(), ConfigFiles())
        written += write_files((path, file.encoded) for path, file in files.items())
    return tuple(written)


def complete_new_config(project: Project, path: Path, text: str) -> str:
    """The text of a config that is not written yet, with all that its patches use imported for type checkers.

    Raises:
        PatchgenError: ruff cannot run with the project's settings.
    """
    sources, files = SourceCache(), ConfigFiles()
    sources.put(path, text)
    files.put(path, text)
    changed = complete_type_imports(project, [path], sources, files)
    return changed[path].text if path in changed else text


def complete_type_imports(
    project: Project, paths: Sequence[Path], sources: SourceCache, files: ConfigFiles
) -> dict[Path, EditedFile]:
    """Have config files, and the project's files whose definitions they patch with, import what these use.

    What a file binds itself stays as it is. A name comes from where the generated module has it: from a module that
    this imports, from upstream, or from the generated module itself. Names that nothing uses any more, and those that
    upstream has no longer, go from the block. A file that does not load stays as it is: the gate tells why.

    Returns:
        The files that change, as they are to be written.

    Raises:
        PatchgenError: a file cannot be read, or ruff cannot run with the project's settings.
    """
    completion = _Completion(project, paths, sources, files)
    changed = {path: file for path in completion.find_files() if (file := completion.complete(path)) is not None}
    return _laid_out(project, files, changed)


def _laid_out(project: Project, files: ConfigFiles, changed: Mapping[Path, EditedFile]) -> dict[Path, EditedFile]:
    """The files with the layout that they had before; those in another encoding keep what libcst gives them."""
    plain = [p for p, f in changed.items() if f.module.encoding == "utf-8" and f.module.default_newline == "\n"]
    if not plain:
        return dict(changed)
    old = [RawText(path, files.get(path).module.code) for path in plain]
    texts = follow_layout(old, [changed[path].module.code for path in plain], project)
    modules = {path: cst.parse_module(text) for path, text in zip(plain, texts)}
    return {path: replace(file, module=modules.get(path, file.module)) for path, file in changed.items()}


@dataclass(frozen=True)
class _Findings:
    """Names of a file that a block can bind; those that its block imports and nothing uses, or upstream lacks."""

    undefined: frozenset[str]
    unused: frozenset[str]
    stale: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.undefined or self.unused or self.stale)


class _Completion:
    def __init__(self, project: Project, paths: Sequence[Path], sources: SourceCache, files: ConfigFiles) -> None:
        self.project, self.paths, self.sources, self.files = project, paths, sources, files
        self.ruff = RuffSettings(project)

    def find_files(self) -> list[Path]:
        """The config files, and the files of the project that they import from."""
        files: dict[Path, None] = {}
        waiting = list(self.paths)
        while waiting:
            path = waiting.pop()
            if path not in files and (source := self._source(path)) is not None:
                files[path] = None
                waiting += _own_imports(self.project, source)
        return sorted(files)

    def _source(self, path: Path) -> SourceFile | None:
        try:
            return self.sources.get(path)
        except PatchgenError:
            return None

    def complete(self, path: Path) -> EditedFile | None:
        """A file with a complete block; None where it stays as it is."""
        findings = self._examine(path)
        users = sorted(self._users(path), key=lambda user: user.rank(path)) if findings else []
        if not users:
            return None
        wanted = {name: _import_of(name, path, users) for name in sorted(findings.undefined | findings.stale)}
        statements = [statement for statement in wanted.values() if statement]
        gone = findings.unused | {name for name in findings.stale if wanted[name]}
        if not statements and not gone:
            return None
        file = self.files.get(path)
        module = change_guard(file.module, statements, gone, self._width(file))
        return None if module.code == file.module.code else replace(file, module=module)

    def _examine(self, path: Path) -> _Findings:
        source = self.sources.get(path)
        names = find_names(source.tree)
        guarded = guarded_imports(source.tree)
        unused = {here for _, _, here in guarded if here not in names.used}
        stale = {here for module, there, here in guarded if here in names.used and not self._has(module, there)}
        unused = {name for name in unused if not Importers(self.project, path).may_use(name)}
        return _Findings(names.undefined, frozenset(unused), frozenset(stale))

    def _has(self, module: str, name: str) -> bool:
        """Whether one of upstream's modeling modules has a name; a name of another module may be anything."""
        if not module.rpartition(".")[2].startswith("modeling_"):
            return True
        try:
            text = self.sources.get(find_upstream(module, self.project.upstream).path)
        except PatchgenError:
            return True
        return name in text.index.names

    def _users(self, path: Path) -> list[ModuleUser]:
        return [user for user in self._all_users if user.is_about(path)]

    @cached_property
    def _all_users(self) -> list[ModuleUser]:
        loader = Loader(self.project, self.sources)
        return [user for path in self.paths for user in find_users(self.project, loader, path)]

    def _width(self, file: EditedFile) -> int:
        length = self.ruff.line_length(self.ruff.file(file.path.parent))
        return width_of(file.module) if length is None else length


def _import_of(name: str, path: Path, users: Sequence[ModuleUser]) -> str:
    return next(filter(None, (user.origins.import_of(name, path) for user in users)), "")


def _own_imports(project: Project, source: SourceFile) -> Iterator[Path]:
    """The files of a project below its search root that one of them imports from, at its top level."""
    module = project.module_name(source.path)
    package = module if source.path.name == "__init__.py" else module.rpartition(".")[0]
    for node in source.tree.body:
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (base := absolute_module(node, package)):
            modules = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        for path in filter(None, map(project.module_path, modules)):
            if path.name != "__init__.py" and path.is_relative_to(project.search_root):
                yield path
