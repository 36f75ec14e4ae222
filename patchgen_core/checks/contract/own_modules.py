"""The project's own packages as their files tell: which modules there are, and what these can be asked for."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from patchgen_core.checks.contract.library import absolute_module, package_of
from patchgen_core.checks.project_code import ProjectCode
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.syntax.exports import exported_names, has_listing
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.source import SourceCache

_OPEN_PACKAGE = re.compile(r"\b(?:__path__|extend_path|sys\.modules|meta_path)\b")
_OPEN_MODULE = re.compile(r"\b(?:__getattr__|globals\(\)|vars\(\)|sys\.modules|exec\(|_LazyModule)")
_DEPTH = 8


class OwnModules:
    """Answers for packages that can be imported from the project's folder; every file is read once."""

    def __init__(self, project: Project, sources: SourceCache, code: ProjectCode) -> None:
        self._project, self._sources, self._code = project, sources, code
        self._texts: dict[Path, str] = {}
        self._files: dict[str, Path | None] = {}

    def is_own(self, module: str) -> bool:
        """Whether a module belongs to one of the project's packages."""
        top = module.partition(".")[0]
        is_package = any((root / top / "__init__.py").is_file() for root in self._project.import_roots)
        return is_package or top == self._project.package_prefix.partition(".")[0]

    def file(self, module: str) -> Path | None:
        """The file of a module."""
        if module not in self._files:
            self._files[module] = self._project.module_path(module)
        return self._files[module]

    def missing_part(self, module: str) -> str:
        """The first package or module on the way to one that is not there; empty where all are, or may be.

        What a namespace package lacks here, another distribution may have; a package may also look for its modules
        in places of its own.
        """
        parts = module.split(".")
        for length in range(2, len(parts) + 1):
            parent, name = ".".join(parts[: length - 1]), ".".join(parts[:length])
            if self.file(name) is not None:
                continue
            package = self.file(parent)
            if package is None or _OPEN_PACKAGE.search(self._text(package)):
                return ""
            if package.name == "__init__.py" and self._has_entry(package.parent, parts[length - 1]):
                return ""  # a namespace package, or an extension module
            return name
        return ""

    def lacks(self, module: str, name: str, depth: int = _DEPTH) -> bool:
        """Whether a module that is there certainly has no such name and no such submodule."""
        path = self.file(module)
        if path is None or not depth or name.startswith("__"):
            return False
        text = self._text(path)
        if _binds_plainly(text, name) or _OPEN_MODULE.search(text):
            return False
        try:
            read = Module(self._sources.get(path), module)
        except PatchgenError:
            return False
        if name in read.index.names or name in read.bound:
            return False
        is_package = path.name == "__init__.py"
        if is_package and (self.file(f"{module}.{name}") is not None or self._has_entry(path.parent, name)):
            return False
        return all(self._star_lacks(read, path, source, name, depth) for source in _star_imports(read, path))

    def _star_lacks(self, module: Module, path: Path, source: str, name: str, depth: int) -> bool:
        """Whether ``from source import *`` certainly does not bring a name."""
        origin = self.file(source)
        if not self.is_own(source) or origin is None:
            return False
        try:
            read = Module(self._sources.get(origin), source)
        except PatchgenError:
            return False
        if has_listing(read.index):
            return name not in exported_names(read.tree, read.index) and not _OPEN_MODULE.search(read.source.text)
        return name.startswith("_") or self.lacks(source, name, depth - 1)

    def _has_entry(self, folder: Path, name: str) -> bool:
        """Whether there is a folder of a name in a folder, or a file of any kind."""
        self._code.note_folder(folder)
        return (folder / name).is_dir() or any(folder.glob(f"{name}.*"))

    def names(self, module: str) -> set[str]:
        """What a module binds by its text, for hints."""
        path = self.file(module)
        try:
            return set(self._sources.get(path).index.names) if path is not None else set()
        except PatchgenError:
            return set()

    def _text(self, path: Path) -> str:
        if path not in self._texts:
            try:
                self._texts[path] = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                self._texts[path] = "__getattr__ __path__"  # what cannot be read may have anything
        return self._texts[path]


def _binds_plainly(text: str, name: str) -> bool:
    """Whether a line of the top level defines or assigns a name; saves reading the rest."""
    word = re.escape(name)
    return re.search(rf"^(?:(?:async )?def|class) {word}\b|^{word}\s*[:=]", text, re.MULTILINE) is not None


def _star_imports(module: Module, path: Path) -> list[str]:
    """The modules that a module imports everything from."""
    package = package_of(module.name, path)
    statements = [statement for statement, _ in module.index.imports.get("*", ())]
    return [absolute_module(s, package) for s in statements if isinstance(s, ast.ImportFrom)]
