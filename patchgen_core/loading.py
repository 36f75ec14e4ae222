"""From a config file to its :class:`~patchgen_core.spec.PatchConfig`, without importing what it imports.

A config is executed with stubs (:mod:`patchgen_core.stubs`) in place of third-party modules. What lies
below the project's search root is executed from its file, without the ``__init__`` of its packages. When a
config needs a real value it is imported for real, and the result says so and why.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from patchgen_core.codegen.source import SourceCache
from patchgen_core.errors import Location, PatchgenError, did_you_mean
from patchgen_core.project import Project
from patchgen_core.sandbox import Sandbox, compiled
from patchgen_core.spec import PatchConfig
from patchgen_core.stubs import Stub, StubValueError, is_stub, stub_path

DEFAULT_NAME = "config"


@dataclass(frozen=True)
class LoadedConfig:
    """A config and how it was loaded.

    Attributes:
        path: its file.
        module: its dotted name.
        name: the variable that holds the config.
        config: the config.
        modules: files of the modules that were executed to load it, by dotted name.
        mode: ``stubbed``, or ``imported`` when third-party modules were imported for real.
        reason: why it was imported for real.
    """

    path: Path
    module: str
    name: str
    config: PatchConfig
    modules: Mapping[str, Path]
    mode: Literal["stubbed", "imported"] = "stubbed"
    reason: str = ""

    @property
    def label(self) -> str:
        """What reports call it: the module, and the variable unless it has the usual name."""
        return self.module if self.name == DEFAULT_NAME else f"{self.module}:{self.name}"


class Loader:
    """Loads the configs of a project; parses each file once.

    Args:
        project: where modules are looked for.
        sources: the run's parsed files.
        full: import everything for real, as Python would.
    """

    def __init__(self, project: Project, sources: SourceCache, full: bool = False) -> None:
        self.project, self.sources, self.full = project, sources, full

    def load(self, path: Path, name: str | None = None) -> list[LoadedConfig]:
        """The configs that a file makes; the one in variable ``name`` if that is given.

        Without a name: ``config`` and every other public :class:`PatchConfig` that the file itself makes.

        Raises:
            PatchgenError: the file cannot be executed, or holds no such config.
        """
        path = Path(os.path.abspath(path))
        module = self.project.module_name(path)
        self.sources.get(path)
        reason = "full loading was asked for"
        if not self.full:
            try:
                sandbox = self._stubbed(path, module, name)
                return self._pick(path, module, name, sandbox.namespaces[module], sandbox.files, "")
            except _NeedsImport as needs:
                reason = str(needs)
        namespace = self._imported(path, module, reason)
        return self._pick(path, module, name, namespace, {}, reason)

    def _stubbed(self, path: Path, module: str, name: str | None) -> Sandbox:
        """Execute a config with stubs; loads a re-exported DSL for real when the config comes out as a stub."""
        known: dict[str, Path] = {}
        while True:
            sandbox = Sandbox(self.project, self.sources, known)
            failure: BaseException | None = None
            try:
                sandbox.execute(module, path)
            except (PatchgenError, KeyboardInterrupt):
                raise
            except BaseException as error:
                failure = error
            namespace = sandbox.namespaces.get(module, {})
            dsl = self._dsl_module(namespace.get(name or DEFAULT_NAME), known)
            if dsl is not None:
                known.update([dsl])
                continue
            if failure is not None:
                kind = "" if isinstance(failure, StubValueError) else f"{type(failure).__name__}: "
                raise _NeedsImport(f"{kind}{failure}") from None
            self._check_stubs(namespace, name)
            return sandbox

    def _dsl_module(self, value: Any, known: Mapping[str, Path]) -> tuple[str, Path] | None:
        """The project's own module that a stubbed config came from, unless it was loaded already."""
        if not isinstance(value, Stub):
            return None
        parts = stub_path(value).replace("()", "").split(".")
        for length in range(len(parts), 0, -1):
            module = ".".join(parts[:length])
            path = self.project.module_path(module) or _find_file(module)
            if path is not None:
                return None if module in known else (module, path)
        return None

    def _check_stubs(self, namespace: Mapping[str, Any], name: str | None) -> None:
        """A replacement that is a stub has no source to copy."""
        for config in _configs(namespace):
            for patch in config.patches:
                if is_stub(getattr(patch, "replacement", None)):
                    raise _NeedsImport(f"it copies the source of {stub_path(patch.replacement)}")
            for helper in [*config.helpers, *config.positioned_helpers]:
                if is_stub(getattr(helper, "definition", helper)):
                    raise _NeedsImport("it copies the source of a third-party helper")
        if is_stub(namespace.get(name or DEFAULT_NAME)):
            raise _NeedsImport(f"its config comes from {namespace[name or DEFAULT_NAME]!r}")

    def _imported(self, path: Path, module: str, reason: str) -> dict[str, Any]:
        """Execute a config with real imports."""
        source = self.sources.get(path)
        before = set(sys.modules)
        with _import_path(self.project):
            loaded = types.ModuleType(module)
            loaded.__file__ = str(path)
            loaded.__package__ = module.rpartition(".")[0]
            previous = sys.modules.get(module)
            sys.modules[module] = loaded
            try:
                exec(compiled(source), loaded.__dict__)
            except (PatchgenError, KeyboardInterrupt):
                raise
            except BaseException as error:
                message = f"the config cannot be loaded: {type(error).__name__}: {error}"
                hint = f"It was imported for real because {reason}."
                raise PatchgenError(message, _raised_at(error, path), hint) from None
            finally:
                self._forget(before, module, previous)
        return loaded.__dict__

    def _forget(self, before: set[str], module: str, previous: types.ModuleType | None) -> None:
        """Drop the project's modules again, so that the next config gets them fresh."""
        sys.modules.pop(module, None)
        if previous is not None:
            sys.modules[module] = previous
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).is_relative_to(self.project.search_root):
                del sys.modules[name]

    def _pick(
        self,
        path: Path,
        module: str,
        name: str | None,
        namespace: Mapping[str, Any],
        files: Mapping[str, Path],
        reason: str,
    ) -> list[LoadedConfig]:
        found = {
            key: value
            for key, value in namespace.items()
            if isinstance(value, PatchConfig) and (key == (name or DEFAULT_NAME) or _is_own(key, value, path))
        }
        if name is not None:
            found = {key: value for key, value in found.items() if key == name}
        wanted = name or DEFAULT_NAME
        if wanted not in found and (name is not None or not found):
            value = namespace.get(wanted)
            others = [key for key, item in namespace.items() if isinstance(item, PatchConfig)]
            what = f"'{wanted}' is a {type(value).__name__}" if value is not None else f"it holds no '{wanted}'"
            hint = f"It has: {', '.join(others)}." if others else did_you_mean(wanted, namespace)
            raise PatchgenError(f"{what}, not a PatchConfig of patchgen", Location(str(path)), hint)
        mode: Literal["stubbed", "imported"] = "imported" if reason else "stubbed"
        return [LoadedConfig(path, module, key, found[key], files, mode, reason) for key in found]


class _NeedsImport(Exception):
    """Stubs do not do for this config; says why."""


def _is_own(name: str, config: PatchConfig, path: Path) -> bool:
    return not name.startswith("_") and config.location.file == str(path)


def _configs(namespace: Mapping[str, Any]) -> list[PatchConfig]:
    return [value for value in namespace.values() if isinstance(value, PatchConfig)]


def _find_file(module: str) -> Path | None:
    """The file of an installed module; looks below its top-level package without executing it."""
    top, *rest = module.split(".")
    try:
        spec = importlib.machinery.PathFinder.find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if not rest:
        return Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
    for folder in spec.submodule_search_locations or ():
        stem = Path(folder, *rest)
        for path in (stem.with_name(f"{stem.name}.py"), stem / "__init__.py"):
            if path.is_file():
                return path
    return None


@contextmanager
def _import_path(project: Project) -> Iterator[None]:
    added = [str(root) for root in project.import_roots if str(root) not in sys.path]
    sys.path[:0] = added
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for entry in added:
            sys.path.remove(entry)


def _raised_at(error: BaseException, path: Path) -> Location:
    """The innermost line of the config itself on an exception's way."""
    line = 0
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return Location(str(path), line)
