"""Which functions of a project run in a process, of those that may look at what no text tells, and what it asks for.

The environment names a file that lists such functions. A module that has one is compiled with a call at the beginning
of each; its lines stay where they are, and its bytecode is not kept.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib.machinery
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

from patchgen_core.workers.opened_files import is_installed

VARIABLE = "PATCHGEN_WATCHED"
"""The environment variable that names the file: JSON of a :class:`Watched`."""
RAN, MODULE, PROGRAM, LOOKED = "ran ", "module ", "program ", "looked "
"""How what is noted begins: a function that ran, with its line; a module and a program that were asked for; what else
was looked at."""
_CALL = "__patchgen_ran__"
_noted: dict[str, None] = {}
_lines: dict[str, frozenset[int]] = {}


@dataclass(frozen=True)
class Watched:
    """What a process is to note.

    Attributes:
        base: the project's folder.
        functions: lines of ``def`` by the paths of modules.
        own: the top-level packages of which it notes when somebody asks whether a module of them is there.
    """

    base: str = ""
    functions: Mapping[str, list[int]] = field(default_factory=dict)
    own: list[str] = field(default_factory=list)


@functools.cache
def watch_code() -> None:
    """From now on note what the file says that the environment names; nothing where it names none."""
    watched = read_watched()
    if watched.functions:
        _lines.update({file: frozenset(lines) for file, lines in watched.functions.items()})
        setattr(builtins, _CALL, _note)
        _watch_functions()
        _watch_programs(f"{watched.base}{os.sep}")
        sys.meta_path.insert(0, _AskedModules(frozenset(watched.own)))


def read_watched() -> Watched:
    """What the file says that the environment names; nothing where that cannot be read."""
    path = os.environ.get(VARIABLE)
    try:
        return Watched(**json.loads(Path(path).read_text(encoding="utf-8"))) if path else Watched()
    except (OSError, ValueError, TypeError):
        return Watched()


def write_watched(path: Path, watched: Watched) -> None:
    """Have processes that are started from now on note this; an OSError where it cannot be written."""
    path.write_text(json.dumps(asdict(watched)), encoding="utf-8")
    os.environ[VARIABLE] = str(path)


def list_noted() -> list[str]:
    """What was noted so far."""
    return list(_noted)


def add_noted(notes: Iterable[str]) -> None:
    """Count what processes of this one have noted as its own."""
    _noted.update(dict.fromkeys(notes))


def list_watched_lines(file: str) -> frozenset[int]:
    """The lines of ``def`` of the functions of a module that note that they run."""
    return _lines.get(os.path.abspath(file), frozenset())


def _watch_functions() -> None:
    loader: Any = importlib.machinery.SourceFileLoader
    get_code = loader.get_code

    @functools.wraps(get_code)
    def get_watched_code(self: Any, fullname: str) -> CodeType | None:
        file = self.get_filename(fullname)
        lines = list_watched_lines(file)
        if not lines:
            return get_code(self, fullname)  # type: ignore[no-any-return]
        return compile_watched(self.get_data(file), file, lines)

    loader.get_code = get_watched_code


def compile_watched(data: bytes, file: str, lines: Iterable[int]) -> CodeType:
    """A module's code, in which functions whose ``def`` is on one of these lines note that they run."""
    lines = frozenset(lines)
    if not lines:
        return compile(data, file, "exec", dont_inherit=True)
    tree, path = ast.parse(data, file), os.path.abspath(file)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.lineno in lines:
            place = 1 if ast.get_docstring(node, clean=False) is not None else 0
            first = node.body[min(place, len(node.body) - 1)]
            call = ast.Call(ast.Name(_CALL, ast.Load()), [ast.Constant(f"{RAN}{path}:{node.lineno}")], [])
            node.body.insert(place, ast.fix_missing_locations(ast.copy_location(ast.Expr(call), first)))
    return compile(tree, file, "exec", dont_inherit=True)


class _AskedModules:
    """Notes which of the project's modules ``importlib.util.find_spec`` is asked for, and finds none itself."""

    def __init__(self, own: frozenset[str]) -> None:
        self._own = own

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        is_asked = sys._getframe(2).f_code is importlib.util.find_spec.__code__
        if is_asked and name.partition(".")[0] in self._own:
            _note(f"{MODULE}{name}")


def _watch_programs(base: str) -> None:
    which: Any = shutil.which

    @functools.wraps(which)
    def asked_which(cmd: Any, *arguments: Any, **options: Any) -> Any:
        caller = sys._getframe(1).f_code.co_filename
        if caller.startswith(base) and not is_installed(caller):
            is_plain = isinstance(cmd, str) and not arguments and not options
            _note(f"{PROGRAM}{cmd}" if is_plain else f"{LOOKED}for a program on a path of {caller}")
        return which(cmd, *arguments, **options)

    module: Any = shutil
    module.which = asked_which


def _note(what: str) -> None:
    _noted[what] = None
