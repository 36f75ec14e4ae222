"""The files of a project that checks of a config may read, as the texts of its modules tell.

That is more than is read: the whole folder of the config, the folder of toy configurations, and of the project's
modules every one that is imported from there, directly or not. Nothing is executed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchgen_core.checks.kept.module_files import ModuleFiles, Part
from patchgen_core.checks.kept.source_summary import REGISTRY, Body
from patchgen_core.checks.kept.states import SETTINGS
from patchgen_core.config.input_recording import Input
from patchgen_core.project.pyproject import PYPROJECT


@dataclass(frozen=True)
class Roots:
    """Where looking begins.

    Attributes:
        folders: of these everything counts, and every function may run.
        modules, files: dotted names and files of modules, of which what runs when they are imported does.
        texts: files of which the text alone counts.
        functions: names of functions that run.
        run: whether something of it runs, which may look at what no text tells of.
        follows_configs: whether what the config files in the folders import counts as well.
        follows_functions: whether what functions outside of the folders import aside does, where nothing runs.
    """

    folders: tuple[Path, ...] = ()
    modules: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    texts: tuple[Path, ...] = ()
    functions: tuple[str, ...] = ()
    run: bool = True
    follows_configs: bool = True
    follows_functions: bool = True


@dataclass(frozen=True)
class Look:
    """Code that may run, and looks at what no text tells.

    Attributes:
        name: the module's file, as inputs have it.
        first: the line of its ``def``; 0 for what runs at an import.
        line: where it looks.
        text: at what.
        only_asks: whether it asks for nothing but modules and programs.
    """

    name: str
    first: int
    line: int
    text: str
    only_asks: bool

    def __str__(self) -> str:
        return f"{self.name}:{self.line} uses {self.text}"


@dataclass
class Closure:
    """What may be read.

    Attributes:
        inputs: the inputs with their states.
        unknown: why there may be more; empty for no such reason.
        looks: the code that may look at more; first what runs at an import.
        functions: all functions that do, whether they may run or not.
    """

    inputs: dict[Input, Any] = field(default_factory=dict)
    unknown: str = ""
    looks: tuple[Look, ...] = ()
    functions: tuple[Look, ...] = ()


def find_closure(files: ModuleFiles, roots: Roots) -> Closure:
    """Follow the imports of a project's modules from where a check begins.

    What is imported inside a private function counts where that may run. A function that is handed to the registry of
    models may run where it stands in one of the folders or leads there, and each does if something names the registry.
    """
    closure = Closure({SETTINGS: files.states.read(*SETTINGS)})
    entered: set[Path] = set()
    starts = [Part(files={files.project.base / PYPROJECT: None, **dict.fromkeys(roots.files)})]
    for folder in roots.folders:
        part = files.folder(folder, roots.follows_configs)
        entered |= part.files.keys()
        starts.append(part)
    starts += [files.module(name) for name in roots.modules]
    starts += map(files.text, roots.texts)
    parts: dict[Path, Part] = {}
    asides = _follow(starts, parts, closure, files)
    if not roots.run:
        while asides := [aside for aside in asides if roots.follows_functions or aside.path in entered]:
            asides = _follow([aside.part for aside in asides], parts, closure, files)
        return closure
    called: list[tuple[Path, Body]] = []
    running = _find_running(parts, entered, roots.functions, called)
    while counting := _find_counting(asides, running, entered):
        asides = [aside for aside in asides if aside not in counting]
        asides += _follow([aside.part for aside in counting], parts, closure, files)
        called += [(aside.path, aside.body) for aside in counting]
        running = _find_running(parts, entered, roots.functions, called)
    closure.looks = tuple(_look(path, body, files) for path, body in _find_looks(parts, running))
    closure.functions = tuple(
        _look(path, body, files)
        for path, part in parts.items()
        if part.summary is not None and not part.is_generated
        for body in part.summary.bodies
        if body.look
    )
    if any(look.only_asks for look in closure.looks):  # such as for a package that comes into the project later
        places = list(map(files.states.name_of, (*files.project.import_roots, *files.own_places)))
        closure.inputs |= {("names", place): files.states.read("names", place) for place in places}
    return closure


@dataclass(frozen=True, eq=False)
class _Aside:
    """A function whose imports count only where it may run, and what these bring."""

    path: Path
    body: Body
    part: Part


def _follow(starts: list[Part], parts: dict[Path, Part], closure: Closure, files: ModuleFiles) -> list[_Aside]:
    """Add what parts lead to; gives the functions in it that have imports aside."""
    asides: list[_Aside] = []
    while starts:
        start = starts.pop()
        closure.inputs |= start.inputs
        closure.unknown = closure.unknown or start.unknown
        for path in start.files:
            if path not in parts:
                part = parts[path] = files.file(path)
                starts.append(part)
                bodies = part.summary.bodies if part.summary is not None else ()
                own = (body for body in bodies if body.imports or body.registered)
                asides += [_Aside(path, body, files.imports(path, body.imports)) for body in own]
    return asides


def _find_counting(asides: Iterable[_Aside], running: Iterable[tuple[Path, Body]], entered: set[Path]) -> list[_Aside]:
    """The functions that may run: those that are found to, those that lead to the folders that were entered, and the
    registered ones where something names the registry."""
    bodies = {id(body): body for _, body in running}
    asks = any(REGISTRY in body.uses for body in bodies.values())
    return [
        aside
        for aside in asides
        if id(aside.body) in bodies or (asks and aside.body.registered) or not entered.isdisjoint(aside.part.files)
    ]


def _look(path: Path, body: Body, files: ModuleFiles) -> Look:
    return Look(files.states.name_of(path), body.first, body.line, body.look, body.only_asks)


def describe_looks(looks: Sequence[Look]) -> str:
    """Why results cannot be kept for these; empty for none."""
    if len(looks) < 2:
        return "".join(map(str, looks))
    functions = f"{len(looks) - 1} other function{'s' * (len(looks) > 2)}"
    return f"{looks[0]}; {functions} that may run {'look' if len(looks) > 2 else 'looks'} at what is not known as well"


def _find_running(
    parts: dict[Path, Part], entered: set[Path], functions: Iterable[str], called: Iterable[tuple[Path, Body]]
) -> list[tuple[Path, Body]]:
    """The code that may run, with its file: what runs at an import, the functions of the folders that were entered,
    those by whose names others may call them, and those that are known to be ``called``."""
    by_name: dict[str, list[tuple[Path, Body]]] = {}
    waiting = [*called]
    for path, part in parts.items():
        if part.summary is not None:
            waiting += [(path, body) for body in part.summary.bodies] if path in entered else []
            waiting.append((path, part.summary.top))
            for name, bodies in part.summary.named():
                by_name.setdefault(name, []).extend((path, body) for body in bodies)
    used: set[str] = set()
    running: dict[int, tuple[Path, Body]] = {}
    waiting += [each for name in functions for each in by_name.get(name, ())]
    while waiting:
        path, body = waiting.pop()
        if id(body) in running:
            continue
        running[id(body)] = path, body
        new = (body.uses & by_name.keys()) - used
        used |= new
        waiting += [each for name in new for each in by_name[name]]
    return list(running.values())


def _find_looks(parts: dict[Path, Part], running: Iterable[tuple[Path, Body]]) -> list[tuple[Path, Body]]:
    """The code among what may run that looks at what is not known; first what runs at an import."""
    looks = [(path, body) for path, body in running if body.look and not parts[path].is_generated]
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
