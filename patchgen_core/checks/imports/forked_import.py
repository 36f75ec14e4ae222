"""What a worker does to import generated modules, each in a process that has imported nothing of the project before.

It imports torch, the upstream package and what upstream's module imports of that beside its own model, once, and forks
for every request: the module imports these itself, so nothing is hidden by their being there. Where there is no fork,
a worker is good for one request.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import pickle
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import TracebackType

from patchgen_core.checks.imports.module_text import give_text
from patchgen_core.workers.collector import without_collector
from patchgen_core.workers.frames import load_answer
from patchgen_core.workers.loop import dump_no_stack, end_with_parent
from patchgen_core.workers.phases import phase
from patchgen_core.workers.watched_code import add_noted, list_noted

CAN_FORK = hasattr(os, "fork")
PREPARED = ("torch", "transformers.modeling_utils")
"""What nearly all of transformers' models import."""
_OUTPUT_KEPT = 4000


@dataclass(frozen=True)
class ImportRequest:
    """A module to import from a text, or where that is None from its file.

    Attributes:
        names: what it is expected to define.
        preload: modules to import before, which stay for the next request.
        setups: references of functions that set up the project's models, which are called before that, once.
    """

    module: str
    path: str
    text: str | None
    names: tuple[str, ...]
    preload: tuple[str, ...]
    setups: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImportReport:
    """What came of an import.

    Attributes:
        died: how the process ended that imported it; empty when it did not.
        error: type and first line of the exception that it raised; empty for none.
        frames: file and line of each frame of that.
        lacks: the module that could not be found.
        exported: the names in its ``__all__``.
        absent: those of these names, and of the expected ones, that it does not define.
        output: the last that it wrote.
        setup_failure: why the set-ups could not run before it, as a sentence; empty where they did or need not.
        noted: what code of the project did that is watched (:mod:`patchgen_core.workers.watched_code`).
    """

    died: str = ""
    error: str = ""
    frames: tuple[tuple[str, int], ...] = ()
    lacks: str = ""
    file: str | None = None
    exported: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    output: str = ""
    setup_failure: str = ""
    noted: tuple[str, ...] = ()


def prepare_process() -> None:
    """What a process of these begins with for an upstream module of :data:`PREPARED`."""
    for name in PREPARED:
        importlib.import_module(name)


def import_in_fork(request: ImportRequest) -> ImportReport:
    """Import a module in a child of this process; a PatchgenError where a set-up fails."""
    dump_no_stack()
    _set_up(request.setups)
    with phase("importing torch and transformers"), without_collector():
        for name in request.preload:
            with contextlib.suppress(BaseException):  # the import itself will say why
                importlib.import_module(name)
    with tempfile.TemporaryFile("w+b") as output, tempfile.TemporaryFile("w+b") as answer:
        status = 0
        if not CAN_FORK:
            _import_and_report(request, output.fileno(), answer.fileno())
        elif child := _fork():
            _, status = os.waitpid(child, 0)
        else:
            _import_and_report(request, output.fileno(), answer.fileno())
            os._exit(0)
        answer.seek(0)
        data = answer.read()
        output.seek(0)
        printed = output.read().decode("utf-8", "replace")[-_OUTPUT_KEPT:]
        end = f"signal {status & 0x7F}" if status & 0x7F else f"exit code {status >> 8}"
        report: ImportReport = load_answer(data) if data else ImportReport(died=end)
        add_noted(report.noted)
        return replace(report, output=printed)


@functools.cache
def _set_up(references: tuple[str, ...]) -> None:
    """Call the set-ups of models, in this process, for what its children import."""
    if references:
        importlib.import_module("patchgen_core.models.project_setup").run_setups(references)


def _fork() -> int:
    with warnings.catch_warnings():  # the other thread only waits for requests
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _import_and_report(request: ImportRequest, output: int, answer: int) -> None:
    end_with_parent()
    os.dup2(output, 1)
    os.dup2(output, 2)
    report = replace(_import(request), noted=tuple(list_noted()))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the module may have closed or replaced it
            stream.flush()
    with os.fdopen(answer, "wb", closefd=False) as file:
        file.write(pickle.dumps(report))


def _import(request: ImportRequest) -> ImportReport:
    if request.text is not None:
        give_text(request.module, request.path, request.text)
    try:
        with _hide_own_package():
            module = importlib.import_module(request.module)
        exported = tuple(str(entry) for entry in getattr(module, "__all__", ()))
        names = dict.fromkeys([*exported, *request.names])
        absent = tuple(entry for entry in names if not hasattr(module, entry))
        return ImportReport(file=getattr(module, "__file__", None), exported=exported, absent=absent)
    except BaseException as error:
        lacks = error.name or "" if isinstance(error, ModuleNotFoundError) else ""
        return ImportReport(error=_first_line(error), frames=tuple(_frames(error)), lacks=lacks)


@contextlib.contextmanager
def _hide_own_package() -> Iterator[None]:
    """Let a module that imports this package find it by itself."""
    package = __name__.partition(".")[0]
    own = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == package}
    for name in own:
        del sys.modules[name]
    try:
        yield
    finally:
        sys.modules.update(own)


def _first_line(error: BaseException) -> str:
    try:
        message = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:
        message = "<exception str() failed>"
    lines = message.strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _frames(error: BaseException) -> list[tuple[str, int]]:
    """File and line of each frame of an import that failed, without the import system's own."""
    frames: list[tuple[str, int]] = []
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith("<frozen") and file not in (__file__, importlib.__file__):
            frames.append((file, trace.tb_lineno))
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((error.filename, error.lineno or 0))
    return frames
