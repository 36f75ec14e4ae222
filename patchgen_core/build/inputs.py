"""What a result depends on: its inputs, and the state that each was in when the result was made.

An input is a kind and a name; its state is a JSON value. A result that is kept holds for as long as every input is in
the state that it was in.

========== ================================= ===================================================================
kind       name                              state
========== ================================= ===================================================================
file       a path                            hash of the contents; None when they cannot be read
module     a dotted name                     its file in the project, or None
folder     a package of the project          whether there is such a folder
installed  a dotted name                     its installed file, or None
absent     a top-level package               whether it is not installed
root       nothing                           the project's root, for what looks at its own path
upstream   a dotted name                     distribution, version, hash of the contents and whether it is a
                                             package, or None
ruff       a folder                          hash of the ruff settings that count there; None when unreadable
own        a folder, ``:`` and dotted names  those that ruff's import sorting finds in the project, and how; None
                                             when its settings are unreadable
========== ================================= ===================================================================

Paths below the project's root are written from there, so that they mean the same in another checkout.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from patchgen_core.build.ruff_setup import RuffSettings
from patchgen_core.config.input_recording import Input, input_name, is_absent
from patchgen_core.errors import PatchgenError
from patchgen_core.files import digest, file_digest
from patchgen_core.project.project import Project
from patchgen_core.upstream.module import InstalledPackages, UpstreamModule, find_upstream, installed_file

_IMPORT = re.compile(r"from[ \t]+([\w.]+)|import[ \t]+([\w., \t]+)")


class InputReader:
    """Reads the states of a project's inputs as they are now, each once."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._states: dict[Input, Any] = {}
        self._kinds: dict[str, Callable[[str], Any]] = {
            "file": lambda name: file_digest(self.path(name)),
            "module": self._module,
            "folder": lambda name: project.package_folder(name).is_dir(),
            "installed": lambda name: self.name_of(installed_file(name, self._packages)),
            "absent": lambda name: is_absent(project, name),
            "root": lambda name: str(project.base),
            "upstream": self._upstream,
            "ruff": self._ruff,
            "own": self._own,
        }
        self._settings = RuffSettings(project)
        self._packages = InstalledPackages()
        self._is_in_a_root = cache(project.has_package)
        self._trails: dict[tuple[str, str], str] = {}

    def read(self, kind: str, name: str) -> Any:
        """The state of an input; a KeyError where there is no such kind."""
        if (kind, name) not in self._states:
            self._states[kind, name] = self._kinds[kind](name)
        return self._states[kind, name]

    def name_of(self, path: Path | None) -> str | None:
        """A path as inputs and their states have it."""
        return input_name(self.project, path) if path is not None else None

    def path(self, name: str) -> Path:
        """The path that an input names."""
        return self.project.base / name

    def _module(self, name: str) -> str | None:
        top = name.partition(".")[0]
        return self.name_of(self.project.module_path(name)) if self._is_in_a_root(top) else None

    def _upstream(self, module: str) -> list[Any] | None:
        try:
            upstream = find_upstream(module, self.project.upstream, installed=self._packages)
        except PatchgenError:
            return None
        contents = file_digest(upstream.path)
        return None if contents is None else upstream_state(upstream, contents)

    def _ruff(self, folder: str) -> str | None:
        try:
            chain = self._settings.chain(self._settings.file(self.path(folder)))
        except PatchgenError:
            return None
        parts = [(self.name_of(path), file_digest(path)) for path in chain]
        return None if any(digest is None for _, digest in parts) else digest(repr(parts).encode())

    def _own(self, name: str) -> list[str] | None:
        folder, _, modules = name.rpartition(":")
        try:
            roots = self._settings.source_roots(self._settings.file(self.path(folder)))
        except PatchgenError:
            return None
        trails = {module: "|".join(self._trail(root, module) for root in roots) for module in modules.split()}
        return [f"{module} {trail}" for module, trail in trails.items() if trail.strip("|")]

    def _trail(self, root: str, name: str) -> str:
        if (root, name) not in self._trails:
            parent, _, _ = name.rpartition(".")
            above = self._trail(root, parent) if parent else ""
            is_lost = bool(parent) and not above
            self._trails[root, name] = "" if is_lost else above + _module_kind(os.path.join(root, *name.split(".")))
        return self._trails[root, name]


def _module_kind(stem: str) -> str:
    """Whether there is a module (``m``), a package (``p``), or a folder with (``n``) or without (``d``) modules."""
    kind = "m" if any(os.path.isfile(f"{stem}{suffix}") for suffix in (".py", ".pyi")) else ""
    if not os.path.isdir(stem):
        return kind
    inside = os.listdir(stem)
    if "__init__.py" in inside:
        return f"{kind}p"
    return f"{kind}n" if any(name.endswith((".py", ".pyi")) for name in inside) else f"{kind}d"


def imported_modules(text: str) -> set[str]:
    """The dotted names in the imports of a module's text."""
    statements = filter(None, (_IMPORT.match(text, place) for place in _places_of_imports(text)))
    return {name for statement in statements for name in re.findall(r"[\w.]+", statement[1] or statement[2])}


def _places_of_imports(text: str) -> Iterator[int]:
    """Where lines begin with ``from`` or ``import``, behind their indentation."""
    for word in ("from", "import"):  # found by the word: few lines have one
        place = text.find(word)
        while place >= 0:
            if not text[text.rfind("\n", 0, place) + 1 : place].strip(" \t"):
                yield place
            place = text.find(word, place + len(word))


def ruff_inputs(reader: InputReader, module: Path, imported: Iterable[str]) -> list[Input]:
    """What ruff sees beside a module's text: its settings there, and where the modules lie that are imported before
    ruff works on the text and afterwards."""
    folder = reader.name_of(module.parent) or ""
    return [("ruff", folder), ("own", f"{folder}:{' '.join(sorted(imported))}")]


def upstream_state(module: UpstreamModule, contents: str) -> list[Any]:
    """The state of an upstream module, of which the hash of the contents is known."""
    return [module.distribution, module.version, contents, module.package == module.module]
