"""The files of a project that checks of a config may read, as the texts of its modules tell.

That is more than is read: the whole folder of the config, the folder of toy configurations, and of the project's
modules every one that is imported from there, directly or not. Nothing is executed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchgen_core.checks.kept.module_files import ModuleFiles, Part
from patchgen_core.checks.kept.source_summary import Body
from patchgen_core.checks.kept.states import SETTINGS
from patchgen_core.config.input_recording import Input
from patchgen_core.project.pyproject import PYPROJECT


@dataclass(frozen=True)
class Roots:
    """Where looking begins.

    Attributes:
        folders: of these everything counts, and every function may run.
        modules, files: dotted names and files of modules, of which what runs when they are imported does.
        functions: names of functions that run.
        run: whether something of it runs, which may look at what no text tells of.
    """

    folders: tuple[Path, ...] = ()
    modules: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    functions: tuple[str, ...] = ()
    run: bool = True


@dataclass
class Closure:
    """What may be read.

    Attributes:
        inputs: the inputs with their states.
        unknown: why there may be more; empty for no such reason.
    """

    inputs: dict[Input, Any] = field(default_factory=dict)
    unknown: str = ""


def find_closure(files: ModuleFiles, roots: Roots) -> Closure:
    """Follow the imports of a project's modules from where a check begins."""
    closure = Closure({SETTINGS: files.states.read(*SETTINGS)})
    entered: set[Path] = set()
    starts = [Part(files={files.project.base / PYPROJECT: None, **dict.fromkeys(roots.files)})]
    for folder in roots.folders:
        part = files.folder(folder)
        entered |= part.files.keys()
        starts.append(part)
    starts += [files.module(name) for name in roots.modules]
    parts: dict[Path, Part] = {}
    while starts:
        start = starts.pop()
        closure.inputs |= start.inputs
        closure.unknown = closure.unknown or start.unknown
        for path in start.files:
            if path not in parts:
                parts[path] = files.file(path)
                starts.append(parts[path])
    if roots.run and not closure.unknown:
        looks = _find_looks(parts, entered, roots.functions)
        closure.unknown = _describe_looks(looks, files) if looks else ""
    return closure


def _describe_looks(looks: list[tuple[Path, Body]], files: ModuleFiles) -> str:
    (path, body), *others = looks
    line = f"{files.states.name_of(path)}:{body.line} uses {body.look}"
    if not others:
        return line
    functions = f"{len(others)} other function{'s' * (len(others) > 1)}"
    return f"{line}; {functions} that may run {'look' if len(others) > 1 else 'looks'} at what is not known as well"


def _find_looks(parts: dict[Path, Part], entered: set[Path], functions: Iterable[str]) -> list[tuple[Path, Body]]:
    """The code that may run and looks at what is not known, with its file; first what runs at an import."""
    by_name: dict[str, list[tuple[Path, Body]]] = {}
    running: list[tuple[Path, Body]] = []
    for path, part in parts.items():
        if part.summary is not None:
            running += [(path, body) for body in part.summary.bodies] if path in entered else []
            running.append((path, part.summary.top))
            for name, bodies in part.summary.named():
                by_name.setdefault(name, []).extend((path, body) for body in bodies)
    used: set[str] = set()
    looks: list[tuple[Path, Body]] = []
    seen: set[int] = set()
    running += [each for name in functions for each in by_name.get(name, ())]
    while running:
        path, body = running.pop()
        if id(body) in seen:
            continue
        seen.add(id(body))
        if body.look and not parts[path].is_generated:
            looks.append((path, body))
        new = (body.uses & by_name.keys()) - used
        used |= new
        running += [each for name in new for each in by_name[name]]
    tops = {id(part.summary.top) for part in parts.values() if part.summary is not None}
    return sorted(looks, key=lambda look: (id(look[1]) not in tops, str(look[0]), look[1].line))


def split_references(references: Iterable[str]) -> Roots:
    """The modules or files, and the functions, that a project names for the process that runs models: each
    ``place:function``, or a place alone."""
    parts = [reference.rpartition(":") for reference in references if reference]
    places = [place or name for place, _, name in parts]
    return Roots(
        modules=tuple(place for place in places if not place.endswith(".py")),
        files=tuple(Path(place) for place in places if place.endswith(".py")),
        functions=tuple(name for place, _, name in parts if place),
    )
