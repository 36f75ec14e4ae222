"""Executing a config with stubs in place of third-party modules."""

from __future__ import annotations

import builtins
import importlib
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from patchgen_core.config.compilation import compiled
from patchgen_core.config.forwarding import is_forwarder, may_forward
from patchgen_core.config.input_recording import (
    OWN,
    RecordedInputs,
    input_name,
    is_absent,
    recording_builtins,
    recording_module,
    starred_module,
)
from patchgen_core.config.stubs import StubModule, StubValueError, is_stub, stub_builtins
from patchgen_core.project.project import CONFIG_SUFFIX, Project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upstream.module import installed_file


class Sandbox:
    """The modules of one stubbed execution, and the import function they see.

    Args:
        project: what lies below its search root is executed from its files.
        files: of other modules to execute, by dotted name; imports of modules that hand the DSL on add theirs.
        inputs: gets to know what the execution depends on, beside the files that ``sources`` reads.

    Attributes:
        namespaces: of the modules that were executed, by dotted name.
    """

    def __init__(self, project: Project, sources: SourceCache, files: dict[str, Path], inputs: RecordedInputs) -> None:
        self.project, self.sources, self.files, self.inputs = project, sources, files, inputs
        self.namespaces: dict[str, dict[str, Any]] = {}
        self.modules: dict[str, types.ModuleType] = {}
        self._own_files: dict[str, Path | None] = {}

    def execute(self, name: str, path: Path) -> types.ModuleType:
        """Execute a file as the module ``name``."""
        source = self.sources.get(path)
        code = compiled(source)
        if _names_file(code):
            self.inputs.add("root", "", str(self.project.base))
        module = types.ModuleType(name)
        is_package = path.name == "__init__.py"
        module.__file__ = str(path)
        module.__package__ = name if is_package else name.rpartition(".")[0]
        importer = _Importer(self, module.__package__, source.guarded_lines)
        module.__dict__["__builtins__"] = stub_builtins(importer) | recording_builtins(self.inputs)
        self.modules[name], self.namespaces[name] = module, module.__dict__
        previous = sys.modules.get(name)
        sys.modules[name] = module  # dataclasses look the module of a class up
        try:
            exec(code, module.__dict__)
        finally:
            if previous is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = previous
        return module

    def find(self, name: str) -> types.ModuleType:
        """The module of an import: executed from its file, a bare package or a stub.

        A ModuleNotFoundError when the project's package has no such module.
        """
        if name in self.modules:
            return self.modules[name]
        parent, _, last = name.rpartition(".")
        if isinstance(alias := self.namespaces.get(parent, {}).get(last), types.ModuleType):
            return alias
        if name in self.files:
            return self.execute(name, self.files[name])
        path = self.own_file(name)
        if path is not None and path.name != "__init__.py" and self.is_below(path):
            return self.execute(name, path)
        if self.is_own(name) and not self.is_package(name):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        module = StubModule(name)
        if self.is_own(name) or any(other.startswith(f"{name}.") for other in self.files):
            module.__path__ = []
        self.modules[name] = module
        return module

    def submodule(self, name: str) -> types.ModuleType | None:
        """The module of a name imported from a package, when it is one that has to be."""
        path = self.own_file(name)
        if self.is_real(name):
            self.inputs.mark_uncacheable(f"it imports {name} for real")
            with import_path(self.project):
                return importlib.import_module(name)
        below = path is not None and self.is_below(path)
        if below or name in self.files or (self.is_own(name) and self.is_package(name)):
            return self.find(name)
        return None

    def expect_dsl(self, name: str, names: Iterable[str]) -> None:
        """Have a module executed from its file, where it is a config or hands on the DSL, before ``names`` of it are
        imported; or the module above it, where that file stands for a whole package."""
        if name in self.modules:
            return
        if name.endswith(CONFIG_SUFFIX.removesuffix(".py")):
            modules = [name]
        elif may_forward(name, names):
            modules = [name, name.rpartition(".")[0]]
        else:
            return
        module = next((module for module in modules if module and self.python_file(module)), "")
        path = self.python_file(module) if module else None
        is_config = path is not None and path.name.endswith(CONFIG_SUFFIX)
        if path is not None and (is_config or is_forwarder(module, self.python_file, self.sources)):
            self.files.setdefault(module, path)
            self.find(module)

    def is_below(self, path: Path) -> bool:
        """Whether a file lies below the project's search root."""
        return path.is_relative_to(self.project.search_root)

    def is_own(self, name: str) -> bool:
        """Whether a module name is below the project's package."""
        prefix = self.project.package_prefix
        return name == prefix or name.startswith(f"{prefix}.")

    def own_file(self, name: str) -> Path | None:
        """The file of one of the project's own modules, or None when there is none."""
        if name not in self._own_files:
            path = self._own_files[name] = self.project.module_path(name)
            self.inputs.add("module", name, input_name(self.project, path) if path else None)
        return self._own_files[name]

    def python_file(self, name: str) -> Path | None:
        """The file of a module, of the project or installed, found without executing anything."""
        path = self.own_file(name)
        if path is None:
            path = installed_file(name)
            self.inputs.add("installed", name, input_name(self.project, path) if path else None)
        return path

    def is_package(self, name: str) -> bool:
        """Whether the project has a folder for one of its packages."""
        is_folder = self.project.package_folder(name).is_dir()
        self.inputs.add("folder", name, is_folder)
        return is_folder

    def binds(self, package: str, name: str) -> bool:
        """Whether the ``__init__`` of one of the project's packages binds a name, or may bind any."""
        path = self.own_file(package)
        if path is None:
            return False
        index = self.sources.get(path).index
        return name in index.names or "*" in index.imports or "__getattr__" in index.functions

    def is_real(self, name: str) -> bool:
        """Whether a module is imported as it is: the standard library, patchgen and what the project names."""
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top in OWN:
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
        guarded = sys._getframe(1).f_lineno in self.guarded
        sandbox = self.sandbox
        if sandbox.is_real(absolute) or (guarded and not sandbox.is_own(absolute)):
            module = self._real(absolute, lambda: builtins.__import__(name, globals, locals, fromlist or (), level))
            is_starred = fromlist == ("*",) and absolute.partition(".")[0] in OWN
            return starred_module(module, sandbox.inputs) if is_starred else module
        sandbox.expect_dsl(absolute, fromlist or ())
        module = sandbox.find(absolute)
        for parent, child in _links(absolute):
            _set_attribute(sandbox.find(parent), child, sandbox.find(f"{parent}.{child}"))
        if not fromlist:
            return module if level else sandbox.find(absolute.partition(".")[0])
        if module.__name__ == absolute:  # else it is another one, by the name that a forwarder has for it
            for item in fromlist:
                self._bind(module, absolute, item, guarded)
        return module

    def _real(self, name: str, load: Callable[[], types.ModuleType]) -> types.ModuleType:
        inputs, top = self.sandbox.inputs, name.partition(".")[0]
        try:
            with import_path(self.sandbox.project) if name not in sys.modules else nullcontext():
                module = load()
        except BaseException:
            if is_absent(self.sandbox.project, top):
                inputs.add("absent", top, True)
            else:
                inputs.mark_uncacheable(f"it tries to import {name}")
            raise
        if top not in sys.stdlib_module_names and top not in OWN:
            inputs.mark_uncacheable(f"it imports {name} for real")
        return recording_module(module, inputs)

    def _bind(self, module: types.ModuleType, name: str, item: str, guarded: bool) -> None:
        """Make a name that is imported from a module an attribute of it, where it is a module itself."""
        if item == "*" and is_stub(module):
            raise StubValueError(f"it imports every name of {name}", name, is_source_enough=True)
        if item in vars(module):
            return
        self.sandbox.expect_dsl(f"{name}.{item}", ())
        submodule = self.sandbox.submodule(f"{name}.{item}")
        if submodule is not None:
            _set_attribute(module, item, submodule)
        elif guarded and is_stub(module) and not self.sandbox.binds(name, item):
            raise ImportError(f"cannot import name '{item}' from '{name}'", name=name)


@contextmanager
def import_path(project: Project) -> Iterator[None]:
    """The project's import roots at the head of ``sys.path``."""
    added = [str(root) for root in project.import_roots if str(root) not in sys.path]
    sys.path[:0] = added
    if added:
        importlib.invalidate_caches()
    try:
        yield
    finally:
        for entry in added:
            if entry in sys.path:
                sys.path.remove(entry)


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


def _names_file(code: types.CodeType) -> bool:
    """Whether code may ask for the path of its file, which is another one in another checkout."""
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return "__file__" in code.co_names or any(map(_names_file, inner))
