"""Executing a config with stubs in place of third-party modules."""

from __future__ import annotations

import ast
import builtins
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from patchgen_core.codegen.source import SourceCache, SourceFile, blocks
from patchgen_core.project import Project
from patchgen_core.stubs import StubModule, StubValueError, is_stub, stub_builtins

_OWN = ("patchgen", "patchgen_core", "pytest_patchgen")


class Sandbox:
    """The modules of one stubbed execution, and the import function they see.

    Args:
        project: what lies below its search root is executed from its files.
        sources: the run's parsed files.
        known: other modules to execute from a file, by dotted name.

    Attributes:
        namespaces, files: of the modules that were executed, by dotted name.
    """

    def __init__(self, project: Project, sources: SourceCache, known: Mapping[str, Path]) -> None:
        self.project, self.sources, self.known = project, sources, known
        self.namespaces: dict[str, dict[str, Any]] = {}
        self.files: dict[str, Path] = {}
        self.modules: dict[str, types.ModuleType] = {}

    def execute(self, name: str, path: Path) -> types.ModuleType:
        """Execute a file as the module ``name``."""
        source = self.sources.get(path)
        module = types.ModuleType(name)
        is_package = path.name == "__init__.py"
        module.__file__ = str(path)
        module.__package__ = name if is_package else name.rpartition(".")[0]
        guarded = _guarded_lines(source.tree.body)
        module.__dict__["__builtins__"] = stub_builtins(_Importer(self, module.__package__, guarded))
        self.modules[name], self.namespaces[name], self.files[name] = module, module.__dict__, path
        previous = sys.modules.get(name)
        sys.modules[name] = module  # dataclasses look the module of a class up
        try:
            exec(compiled(source), module.__dict__)
        finally:
            if previous is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = previous
        return module

    def find(self, name: str) -> types.ModuleType:
        """The module of an import: executed from its file, real, a bare package or a stub."""
        if name in self.modules:
            return self.modules[name]
        if name in self.known:
            return self.execute(name, self.known[name])
        path = self.project.module_path(name)
        below = path is not None and path.is_relative_to(self.project.search_root)
        if path is None and self._is_missing(name):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        if below and path is not None and path.name != "__init__.py":
            return self.execute(name, path)
        if below or any(other.startswith(f"{name}.") for other in self.known):
            package = StubModule(name)
            package.__path__ = []
            self.modules[name] = package
            return package
        self.modules[name] = StubModule(name)
        return self.modules[name]

    def _is_missing(self, name: str) -> bool:
        """Whether a name below the project's package is not even a folder."""
        prefix = self.project.package_prefix
        if not name.startswith(f"{prefix}."):
            return False
        folder = self.project.search_root.joinpath(*name[len(prefix) + 1 :].split("."))
        return not folder.is_dir()

    def is_real(self, name: str) -> bool:
        """Whether a module is imported as it is: the standard library, patchgen and what the project names."""
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top in _OWN:
            return True
        return any(name == real or name.startswith(f"{real}.") for real in self.project.real_imports)


class _Importer:
    """The ``__import__`` of a stubbed module."""

    def __init__(self, sandbox: Sandbox, package: str, guarded: set[int]) -> None:
        self.sandbox, self.package, self.guarded = sandbox, package, guarded

    def __call__(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: tuple[str, ...] | None = (),
        level: int = 0,
    ) -> Any:
        absolute = _absolute(name, self.package, level)
        line = sys._getframe(1).f_lineno
        project_file = self.sandbox.project.module_path(absolute)
        if self.sandbox.is_real(absolute) or (line in self.guarded and project_file is None):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        module = self.sandbox.find(absolute)
        for parent, child in _links(absolute):
            _set_attribute(self.sandbox.find(parent), child, self.sandbox.find(f"{parent}.{child}"))
        if not fromlist:
            return module if level else self.sandbox.find(absolute.partition(".")[0])
        for item in fromlist:
            if item == "*" and is_stub(module):
                raise StubValueError(f"it imports every name of {absolute}")
            submodule = f"{absolute}.{item}"
            path = self.sandbox.project.module_path(submodule)
            inside = path is not None and path.is_relative_to(self.sandbox.project.search_root)
            if item not in vars(module) and (inside or submodule in self.sandbox.known):
                _set_attribute(module, item, self.sandbox.find(submodule))
        return module


def _links(name: str) -> Iterator[tuple[str, str]]:
    parts = name.split(".")
    for length in range(1, len(parts)):
        yield ".".join(parts[:length]), parts[length]


def _set_attribute(module: types.ModuleType, name: str, value: Any) -> None:
    vars(module).setdefault(name, value)


def _absolute(name: str, package: str, level: int) -> str:
    if not level:
        return name
    parts = package.split(".")
    base = ".".join(parts[: len(parts) - level + 1])
    if not base or level > len(parts):
        raise ImportError("attempted relative import beyond top-level package")
    return f"{base}.{name}" if name else base


def _guarded_lines(body: list[ast.stmt], guarded: bool = False) -> set[int]:
    """Lines of imports whose failure the file handles: they are imported for real, to fail when they would."""
    lines: set[int] = set()
    for statement in body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)) and guarded:
            lines.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
        for block in blocks(statement):
            lines |= _guarded_lines(block, guarded or _catches(statement, block))
    return lines


def _catches(statement: ast.stmt, block: list[ast.stmt]) -> bool:
    """Whether a statement handles the failure of an import in one of its blocks."""
    if isinstance(statement, ast.With):
        return any("suppress" in ast.unparse(item) for item in statement.items)
    handlers = statement.handlers if isinstance(statement, ast.Try) and block is statement.body else []
    return any(_catches_import(handler.type) for handler in handlers)


def _catches_import(handler: ast.expr | None) -> bool:
    if handler is None:
        return True
    names = {n.id for n in ast.walk(handler) if isinstance(n, ast.Name)}
    return bool(names & {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


def compiled(source: SourceFile) -> types.CodeType:
    """A config's code. Patches declared under ``if TYPE_CHECKING:`` count, so such a block runs."""
    return compile(_with_type_checking(source.tree), str(source.path), "exec", dont_inherit=True)


def _with_type_checking(tree: ast.Module) -> ast.Module:
    """The tree with ``if TYPE_CHECKING:`` made true where the block holds more than imports."""
    body: list[ast.stmt] = []
    for statement in tree.body:
        if (
            isinstance(statement, ast.If)
            and ast.unparse(statement.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
            and not all(isinstance(s, (ast.Import, ast.ImportFrom, ast.Pass)) for s in statement.body)
        ):
            test = ast.copy_location(ast.Constant(True), statement.test)
            statement = ast.copy_location(ast.If(test, statement.body, statement.orelse), statement)
        body.append(statement)
    return ast.Module(body, tree.type_ignores)
