"""The states of a project's files and names, each read once, and what a later look must find unchanged.

Beside the kinds of :mod:`patchgen_core.build.inputs` there are:

=========== ================================= ==================================================================
kind        name                              state
=========== ================================= ==================================================================
names       a folder                          names of the modules, packages and libraries in it
tree        a folder                          the files below it, from there
variable    an environment variable           hash of its value, None where it is not set
program     a program                         its file on the search path, or None
settings    nothing                           hash of how the run goes
assigned    the name of an attribute          whether code of the project assigns it to something but ``self``
registering a package's folder, or a module   the modules there that register kernels, with hashes
plan        a config file                     hash of what its configs declare, wherever; None where they have drifted
places      a config file                     hash of the lines that this is declared on; None as well
=========== ================================= ==================================================================
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from patchgen_core.build.inputs import InputReader
from patchgen_core.checks.kept.machine import variable_state
from patchgen_core.checks.kept.made_configs import DECLARED
from patchgen_core.checks.project_code import ProjectCode, list_registering
from patchgen_core.config.input_recording import Input
from patchgen_core.errors import PatchgenError
from patchgen_core.files import file_digest
from patchgen_core.project.file_tree import walk_files
from patchgen_core.project.project import Project

SETTINGS: Input = ("settings", "")
_MODULES = (".py", ".so", ".pyd")


class States:
    """The states of a project's inputs as they were when they were first asked for."""

    def __init__(self, project: Project, settings: str, read_declared: Callable[[str, Path], str | None]) -> None:
        self.project, self._settings, self._read_declared = project, settings, read_declared
        self._reader, self._code = InputReader(project), ProjectCode(project)
        self._states: dict[Input, Any] = {}
        self._signatures: dict[str, tuple[int, ...]] = {}

    def read(self, kind: str, name: str) -> Any:
        """The state of an input; a KeyError where there is no such kind."""
        if (kind, name) not in self._states:
            self._states[kind, name] = self._read(kind, name)
        return self._states[kind, name]

    def name_of(self, path: Path) -> str:
        """A path as inputs have it."""
        return self._reader.name_of(path) or ""

    def path(self, name: str) -> Path:
        """The path that an input names."""
        return self._reader.path(name)

    def agrees(self, inputs: Mapping[Input, Any] | Iterable[tuple[Input, Any]]) -> bool:
        """Whether inputs are in these states."""
        pairs = inputs.items() if isinstance(inputs, Mapping) else inputs
        return all(self.read(*each) == state for each, state in pairs)

    def is_untouched_since(self, earlier: States, inputs: Iterable[Input]) -> bool:
        """Whether nothing has been written over any of these files since an earlier look, even with what was there."""
        files = [name for kind, name in inputs if kind == "file"]
        return all(self._sign(name) == earlier._signatures.get(name, ()) for name in files)

    def _read(self, kind: str, name: str) -> Any:
        if kind == "file":
            self._signatures[name] = self._sign(name)
            return self._reader.read(kind, name)
        if kind == "names":
            return self._names(name)
        if kind == "tree":
            return self._tree(name)
        if kind == "variable":
            return variable_state(name)
        if kind == "program":
            return shutil.which(name)
        if kind == "assigned":
            return self._code.assigns(name)
        if kind == "registering":
            return self._registering(name)
        if kind in DECLARED:
            return self._read_declared(kind, self.path(name))
        return self._settings if (kind, name) == SETTINGS else self._reader.read(kind, name)

    def _sign(self, name: str) -> tuple[int, ...]:
        try:
            status = os.stat(self.path(name))
        except OSError:
            return ()
        return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)

    def _names(self, name: str) -> list[str] | None:
        try:
            with os.scandir(self.path(name)) as scan:
                return sorted(entry.name for entry in scan if _is_module(entry))
        except OSError:
            return None

    def _tree(self, name: str) -> list[str] | None:
        folder = self.path(name)
        try:
            return sorted(path.relative_to(folder).as_posix() for path in walk_files(folder) if _counts(path))
        except PatchgenError:
            return None

    def _registering(self, name: str) -> list[list[str | None]] | None:
        try:
            paths = list_registering(self.path(name))
        except (PatchgenError, OSError):
            return None
        return [[self.name_of(path), file_digest(path)] for path in paths]


def _is_module(entry: os.DirEntry[str]) -> bool:
    if "." in entry.name:
        return entry.name.endswith(_MODULES)
    return entry.name.isidentifier() and entry.name != "__pycache__" and entry.is_dir()


def _counts(path: Path) -> bool:
    """Whether a file of a folder may be read; not those that editors and our own writing put there for a while."""
    return not path.name.startswith(".") and not path.name.endswith(("~", ".pyc"))
