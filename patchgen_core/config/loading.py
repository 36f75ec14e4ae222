"""From a config file to its :class:`~patchgen_core.config.spec.PatchConfig`, without importing what it imports.

A config is executed with stubs (:mod:`patchgen_core.config.stubs`) in place of third-party modules. What lies
below the project's search root is executed from its file, without the ``__init__`` of its packages. When a
config needs a real value it is imported for real, and the result says so and why.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from patchgen_core.config.compilation import compiled_for_real
from patchgen_core.config.declarations import Helper, ImportSpec, Patch
from patchgen_core.config.forwarding import is_forwarder
from patchgen_core.config.input_recording import RecordedInputs
from patchgen_core.config.misuse import refuse_misuse
from patchgen_core.config.sandbox import Sandbox, import_path
from patchgen_core.config.spec import PatchConfig
from patchgen_core.config.stubs import Stub, StubValueError, is_stub, stub_path
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache

DEFAULT_NAME = "config"
_DECLARED = {kind: tuple(field.name for field in fields(kind)) for kind in (Patch, ImportSpec, Helper)}
"""The fields of what the calls of the DSL store."""


@dataclass(frozen=True)
class LoadedConfig:
    """A config and how it was loaded.

    Attributes:
        name: the variable that holds the config.
        modules: namespaces of the project's modules that were executed to load it, by dotted name.
        mode: ``stubbed``, or ``imported`` when third-party modules were imported for real.
        inputs: what that depends on, beside the files that it consists of.
    """

    path: Path
    module: str
    name: str
    config: PatchConfig
    modules: Mapping[str, Mapping[str, Any]]
    mode: Literal["stubbed", "imported"] = "stubbed"
    reason: str = ""
    inputs: RecordedInputs = field(default_factory=RecordedInputs, compare=False)

    @property
    def label(self) -> str:
        """What reports call it: the module, and the variable unless it has the usual name."""
        return self.module if self.name == DEFAULT_NAME else f"{self.module}:{self.name}"


class Loader:
    """Loads the configs of a project; parses each file once. ``full`` imports everything for real, as Python would."""

    def __init__(self, project: Project, sources: SourceCache, full: bool = False) -> None:
        self.project, self.sources, self.full = project, sources, full

    def load(self, path: Path, name: str | None = None) -> list[LoadedConfig]:
        """The configs that a file makes; the one in variable ``name`` if that is given.

        Without a name: ``config`` and every other public :class:`PatchConfig` that the file itself makes.
        A PatchgenError when the file cannot be executed, or holds no such config.
        """
        path = Path(os.path.abspath(path))
        self.sources.get(path)
        with contextlib.redirect_stdout(sys.stderr):  # what a config prints is not part of a report
            return self._load(path, self.project.module_name(path), name)

    def _load(self, path: Path, module: str, name: str | None) -> list[LoadedConfig]:
        reason, inputs = "full loading was asked for", RecordedInputs()
        if not self.full:
            try:
                return self._pick(path, module, name, self._stubbed(path, module, name, inputs), "", inputs)
            except _NeedsImport as needs:
                reason = str(needs)
        inputs.mark_uncacheable("it is imported for real")
        return self._pick(path, module, name, self._imported(path, module, reason), reason, inputs)

    def _stubbed(self, path: Path, module: str, name: str | None, inputs: RecordedInputs) -> dict[str, dict[str, Any]]:
        """Execute a config with stubs; modules that stubs cannot stand for are executed from their files as well."""
        files: dict[str, Path] = {}
        while True:
            sandbox = Sandbox(self.project, self.sources, files, inputs)
            failure: BaseException | None = None
            try:
                sandbox.execute(module, path)
            except PatchgenError:
                raise
            except NameError as error:  # would be the same with real imports
                hint = "Defaults, decorators and base classes are evaluated when a config is loaded: "
                hint += "import the name from the upstream module, which is stubbed."
                message = f"the config cannot be loaded: NameError: {error}"
                raise PatchgenError(message, _raised_at(error, path, self.project), hint) from None
            except (Exception, SystemExit) as error:
                refuse_misuse(error, _raised_at(error, path, self.project))
                failure = error
            namespace = sandbox.namespaces.get(module, {})
            failure = failure or _stub_value(namespace, name)
            needed = self._needed_modules(sandbox, namespace, name, failure)
            if needed.keys() - files.keys():
                files.update(needed)
                continue
            if failure is not None:
                kind = "" if isinstance(failure, StubValueError) else f"{type(failure).__name__}: "
                raise _NeedsImport(f"{kind}{failure}") from None
            return sandbox.namespaces

    def _needed_modules(
        self, sandbox: Sandbox, namespace: Mapping[str, Any], name: str | None, failure: BaseException | None
    ) -> dict[str, Path]:
        """The modules that stubbed configs, patches and replacements came from, so that they can be executed."""
        stubs = [namespace.get(name or DEFAULT_NAME)]
        stubs += [v for v in namespace.values() if isinstance(v, Stub) and stub_path(v).endswith("PatchConfig()")]
        stubs += [patch for config in _configs(namespace) for patch in _listed(config.patches)]
        needed = dict(filter(None, [_module_of(stub_path(s), sandbox) for s in stubs if isinstance(s, Stub)]))
        if isinstance(failure, StubValueError) and (place := _module_of(failure.path, sandbox)):
            is_enough = failure.is_source_enough and sandbox.own_file(place[0]) is not None
            if is_enough or is_forwarder(place[0], sandbox.python_file, self.sources):
                needed |= [place]
        return needed

    def _imported(self, path: Path, module: str, reason: str) -> dict[str, dict[str, Any]]:
        """Execute a config with real imports; the project's own modules are executed afresh."""
        source = self.sources.get(path)
        with import_path(self.project), _fresh_modules(self.project, self.sources):
            loaded = types.ModuleType(module)
            loaded.__file__ = str(path)
            loaded.__package__ = module.rpartition(".")[0]
            sys.modules[module] = loaded
            try:
                exec(compiled_for_real(source, self.project), loaded.__dict__)
            except PatchgenError:
                raise
            except (Exception, SystemExit) as error:
                location = _raised_at(error, path, self.project)
                refuse_misuse(error, location)
                message = f"{type(error).__name__}: {error}"
                hint = "" if reason.startswith(message) else f"It was imported for real because {reason}."
                raise PatchgenError(f"the config cannot be loaded: {message}", location, hint) from None
            names = [name for name in sys.modules if _is_own(sys.modules[name], name, self.project)]
            return {module: loaded.__dict__} | {name: vars(sys.modules[name]) for name in names}

    def _pick(
        self,
        path: Path,
        module: str,
        name: str | None,
        modules: Mapping[str, Mapping[str, Any]],
        reason: str,
        inputs: RecordedInputs,
    ) -> list[LoadedConfig]:
        namespace = modules[module]
        config_name = name or DEFAULT_NAME
        value = namespace.get(config_name)
        configs = {config_name: value} if isinstance(value, PatchConfig) else {}
        if name is None:
            others = (ns for other, ns in modules.items() if other != module)
            theirs = {id(config) for ns in others for config in _configs(ns)}
            for key, item in namespace.items():
                is_new = isinstance(item, PatchConfig) and all(item is not earlier for earlier in configs.values())
                if is_new and not key.startswith("_") and id(item) not in theirs:
                    configs[key] = item
        if not configs:
            has = [key for key, item in namespace.items() if isinstance(item, PatchConfig)]
            hint = f"It has: {', '.join(has)}." if has else ""
            message = f"it makes no PatchConfig called '{config_name}'"
            if config_name in namespace:
                message = f"'{config_name}' is of type {type(value).__name__}, not a PatchConfig of patchgen"
            raise PatchgenError(message, Location(str(path)), hint)
        mode: Literal["stubbed", "imported"] = "imported" if reason else "stubbed"
        return [LoadedConfig(path, module, key, item, modules, mode, reason, inputs) for key, item in configs.items()]


class _NeedsImport(Exception):
    """Stubs do not do for this config; says why."""


def _configs(namespace: Mapping[str, Any]) -> list[PatchConfig]:
    return [value for value in namespace.values() if isinstance(value, PatchConfig)]


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _stub_value(namespace: Mapping[str, Any], name: str | None) -> StubValueError | None:
    """A declaration that holds a stub needs the real object: its source, or its text."""
    config = namespace.get(name or DEFAULT_NAME)
    if is_stub(config):
        return StubValueError(f"its config comes from {stub_path(config)}", stub_path(config))
    entries = (
        entry
        for config in _configs(namespace)
        for value in vars(config).values()
        for entry in _listed(value) or (value,)
    )
    return next(filter(None, map(_stub_in_entry, entries)), None)


def _stub_in_entry(entry: Any) -> StubValueError | None:
    values = {name: getattr(entry, name) for name in _DECLARED.get(type(entry), ())}
    for name in ("replacement", "definition"):
        if is_stub(values.get(name)):
            path = stub_path(values[name])
            return StubValueError(f"it copies the source of {path}", path, is_source_enough=True)
    for value in (entry, *values.values()):
        inner = value.items() if isinstance(value, Mapping) else [_listed(value)]
        for part in (value, *(item for items in inner for item in items)):
            if is_stub(part):
                return StubValueError(f"it needs the value of {stub_path(part)}", stub_path(part))
    return None


def _module_of(dotted: str, sandbox: Sandbox) -> tuple[str, Path] | None:
    """The module, with its file, that the longest part of a dotted name stands for."""
    parts = dotted.replace("()", "").split(".")
    modules = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next(((module, path) for module in modules if (path := sandbox.python_file(module))), None)


# --- importing for real ----------------------------------------------------------------------------


@contextlib.contextmanager
def _fresh_modules(project: Project, sources: SourceCache) -> Iterator[None]:
    """No module of the project is imported yet, and none stays imported."""
    before = dict(sys.modules)
    for name in [name for name, module in before.items() if _is_own(module, name, project)]:
        del sys.modules[name]
    finder = _ProjectFinder(project, sources)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name, module in sys.modules.items() if _is_own(module, name, project)]:
            del sys.modules[name]
        sys.modules.update({name: module for name, module in before.items() if name not in sys.modules})


def _is_own(module: types.ModuleType | None, name: str, project: Project) -> bool:
    if name.partition(".")[0] != project.package_prefix.partition(".")[0]:
        return False
    places = [getattr(module, "__file__", None) or "", *getattr(module, "__path__", ())]
    roots = (*project.import_roots, project.search_root)
    return any(place and Path(place).is_relative_to(root) for place in places for root in roots)


class _ProjectFinder:
    """Finds the project's config files for a real import, and compiles them as a stubbed one would."""

    def __init__(self, project: Project, sources: SourceCache) -> None:
        self.project, self.sources = project, sources

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        file = self.project.module_path(name)
        if file is None or file.name == "__init__.py" or not file.is_relative_to(self.project.search_root):
            return None
        loader = _ProjectLoader(name, str(file))
        loader.sources, loader.project = self.sources, self.project
        return importlib.util.spec_from_file_location(name, file, loader=loader)


class _ProjectLoader(importlib.machinery.SourceFileLoader):
    sources: SourceCache
    project: Project

    def get_code(self, fullname: str) -> types.CodeType:
        return compiled_for_real(self.sources.get(Path(self.path)), self.project)


def _raised_at(error: BaseException, path: Path, project: Project) -> Location:
    """The innermost line of the config, or of another file of the project, on an exception's way."""
    location = Location(str(path))
    trace = error.__traceback__
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if file == path or file.is_relative_to(project.search_root):
            location = Location(str(file), trace.tb_lineno)
        trace = trace.tb_next
    return location
