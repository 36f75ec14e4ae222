"""What single files of a project bring into what a result depends on: what each imports, and which files that is."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchgen_core.checks.kept.machine import counts_where_named
from patchgen_core.checks.kept.source_summary import Import, SourceSummary
from patchgen_core.checks.kept.states import States
from patchgen_core.checks.kept.summaries import Summaries
from patchgen_core.config.input_recording import OWN, Input
from patchgen_core.errors import PatchgenError
from patchgen_core.files import read_text, text_digest
from patchgen_core.project.file_tree import module_file
from patchgen_core.project.project import CONFIG_SUFFIX, Project
from patchgen_core.syntax.header import is_generated

_LIBRARIES = (".so", ".pyd")
_HOME = re.compile(r"\bexpanduser\b|\.home\(")
_VARIABLE = re.compile(r"""["']([A-Z][A-Z0-9_]+|[a-z]+_proxy|container)["']""")


@dataclass
class Part:
    """What a file, a folder or a name brings.

    Attributes:
        inputs: inputs with their states.
        files: files that it leads to.
        summary: what the text of a module tells; None for other files.
        is_generated: whether it is upstream's code, and that of patches, whose text stands elsewhere.
        unknown: why there may be more; empty for no such reason.
    """

    inputs: dict[Input, Any] = field(default_factory=dict)
    files: dict[Path, None] = field(default_factory=dict)
    summary: SourceSummary | None = None
    is_generated: bool = False
    unknown: str = ""


class ModuleFiles:
    """Looks at each file and name of a project once."""

    def __init__(self, states: States, summaries: Summaries) -> None:
        self.states, self.project, self._summaries = states, states.project, summaries
        self.own_places = find_own_places(self.project)
        self._files: dict[Path, Part] = {}
        self._modules: dict[tuple[str, tuple[Path, ...]], Part] = {}

    def file(self, path: Path) -> Part:
        """What a file brings: itself, and the modules that it imports."""
        if path not in self._files:
            part = self._files[path] = Part()
            self._look_at_file(path, part)
        return self._files[path]

    def text(self, path: Path) -> Part:
        """A file, of which nothing counts but its text."""
        part = Part()
        self._add(part, "file", self.states.name_of(path))
        return part

    def folder(self, folder: Path, follows_configs: bool = True) -> Part:
        """What a folder brings: all files in it and below; of config files what they import, or their texts alone."""
        part = Part()
        name = self.states.name_of(folder)
        for file in self._add(part, "tree", name) or ():
            if follows_configs or not file.endswith(CONFIG_SUFFIX):
                part.files[folder / file] = None
            else:
                self._add(part, "file", self.states.name_of(folder / file))
        return part

    def module(self, name: str, beside: tuple[Path, ...] = ()) -> Part:
        """What a dotted name brings, with the packages that it lies in; ``beside`` are folders to look in first."""
        if (name, beside) not in self._modules:
            part = self._modules[name, beside] = Part()
            self._look_for_module(name, beside, part)
        return self._modules[name, beside]

    def _add(self, part: Part, kind: str, name: str) -> Any:
        state = part.inputs[kind, name] = self.states.read(kind, name)
        return state

    # --- modules by name ---

    def _look_for_module(self, name: str, beside: tuple[Path, ...], part: Part) -> None:
        parts = name.split(".")
        if parts[0] in OWN or not self._may_be_own(parts[0], beside, part):
            return
        for length in range(1, len(parts) + 1):
            path = self._find(".".join(parts[:length]), beside, part)
            if path is not None:
                part.files[path] = None

    def _may_be_own(self, top: str, beside: tuple[Path, ...], part: Part) -> bool:
        """Whether a top-level package may lie in the project; what is installed is part of the machine's state."""
        is_own = self._find(top, beside, part) is not None
        if top not in sys.stdlib_module_names:
            self._add(part, "absent", top)
        places = (*self.project.import_roots, *self.own_places, *beside)
        return is_own or any((place / top).is_dir() for place in places)

    def _find(self, name: str, beside: tuple[Path, ...], part: Part) -> Path | None:
        state = self._add(part, "module", name)
        if state is not None:
            return self.states.path(state)
        for place in (*beside, *self.own_places):
            path = module_file(place, name.split("."))
            stem = place.joinpath(*name.split("."))
            for candidate in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
                self._add(part, "file", self.states.name_of(candidate))
            self._add_libraries(stem, part)
            if path is not None:
                return path
        for root in self.project.import_roots:
            self._add_libraries(root.joinpath(*name.split(".")), part)
        return None

    def _add_libraries(self, stem: Path, part: Part) -> None:
        """Add compiled modules, which may be of any build."""
        names = self.states.read("names", self.states.name_of(stem.parent)) or ()
        for name in names:
            if name.endswith(_LIBRARIES) and name.partition(".")[0] == stem.name:
                part.files[stem.parent / name] = None

    # --- files ---

    def _look_at_file(self, path: Path, part: Part) -> None:
        state = self._add(part, "file", self.states.name_of(path))
        if state is None or path.suffix != ".py":
            return
        self._add(part, "names", self.states.name_of(path.parent))
        text = self._read(path, state)
        if text is None:
            part.unknown = f"'{self.states.name_of(path)}' changes while it is read"
            return
        try:
            summary = part.summary = self._summaries.of(text, state)
        except (SyntaxError, ValueError, RecursionError):
            part.unknown = f"'{self.states.name_of(path)}' is not Python"
            return
        part.is_generated = is_generated(text)
        for variable in {*_VARIABLE.findall(text), *(["HOME"] if _HOME.search(text) else ())}:
            if counts_where_named(variable, self.project.shared_cache.ignore_variables):
                self._add(part, "variable", variable)
        self._add_imports(part, path, summary.imports)

    def imports(self, path: Path, imports: Iterable[Import]) -> Part:
        """What some imports of a module bring."""
        part = Part()
        self._add_imports(part, path, imports)
        return part

    def _add_imports(self, part: Part, path: Path, imports: Iterable[Import]) -> None:
        beside = () if self._is_in_package(path) else (path.parent,)
        for name in sorted(set(_absolute_names(imports, self.project.module_name(path), path))):
            module = self.module(name, beside)
            part.inputs |= module.inputs
            part.files |= module.files

    def _read(self, path: Path, state: str) -> str | None:
        """The text of a file, if it is still in the state that was read."""
        try:
            text = read_text(path)
        except PatchgenError:
            return None
        return text if text is not None and text_digest(text) == state else None

    def _is_in_package(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in (self.project.search_root, *self.project.import_roots[:1]))


def find_own_places(project: Project) -> tuple[Path, ...]:
    """Folders of the project that modules are imported from beside its import roots."""
    base = str(project.base)
    places = (Path(os.path.abspath(place)) for place in sys.path)
    own = (p for p in places if str(p).startswith(f"{base}{os.sep}") and p.name not in ("site-packages", "bin"))
    return tuple(dict.fromkeys(place for place in own if place not in project.import_roots))


def _absolute_names(imports: Iterable[Import], module: str, path: Path) -> Iterable[str]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for level, name, attribute in imports:
        base = _resolve(level, name, package)
        if base:
            yield base
            if attribute and attribute != "*":
                yield f"{base}.{attribute}"


def _resolve(level: int, name: str, package: str) -> str:
    try:
        return importlib.util.resolve_name("." * level + name, package) if level else name
    except ImportError:
        return ""
