"""Imports generated modules, each in a process that has imported nothing of the project before.

Run as a script by :mod:`patchgen_core.checks.imports.importing`. Every line of standard input is a request, answered
by one line of standard output, both JSON. The process imports torch, the upstream package and what upstream's module
imports of that beside its own model, once, and forks for every request: the module imports these itself, so nothing is
hidden by their being there. Where there is no fork it serves one request.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import linecache
import os
import select
import signal
import sys
import tempfile
import time
from types import TracebackType
from typing import Any

_OUTPUT_KEPT = 4000
_POLL = 0.01


class _Text(importlib.machinery.SourceFileLoader):
    """Loads a module from a text instead of its file, leaving no bytecode behind."""

    text = ""

    def get_data(self, path: str) -> bytes:
        return self.text.encode("utf-8", "surrogateescape")

    def path_stats(self, path: str) -> Any:
        raise OSError("not on disk")


class TextFinder(importlib.abc.MetaPathFinder):
    """Finds one module, whose folder need not exist yet."""

    def __init__(self, module: str, path: str, text: str) -> None:
        self.module, self.path, self.text = module, path, text

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """The module, or its folder when that does not exist."""
        folder = os.path.dirname(self.path)
        if name == self.module:
            loader = _Text(name, self.path)
            loader.text = self.text
            return importlib.util.spec_from_file_location(name, self.path, loader=loader)
        if name == self.module.rpartition(".")[0] and not os.path.isdir(folder):
            spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [folder]
            return spec
        return None


def give_text(module: str, path: str, text: str) -> None:
    """Have a module imported from a text, whatever stands on disk."""
    sys.meta_path.insert(0, TextFinder(module, path, text))
    linecache.cache[path] = (len(text), None, text.splitlines(True), path)


def given_texts() -> list[tuple[str, str, str]]:
    """Module, path and text of each :func:`give_text`, for another process that imports the same."""
    return [(found.module, found.path, found.text) for found in sys.meta_path if isinstance(found, TextFinder)]


def serve() -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what an import prints is no answer
    for line in sys.stdin:
        request = json.loads(line)
        sys.path[:] = request["search"]
        start = time.perf_counter()
        for name in request["preload"]:
            with contextlib.suppress(BaseException):  # the import itself will say why
                importlib.import_module(name)
        seconds = {"importing torch and transformers": time.perf_counter() - start}
        answers.write(json.dumps({**_serve_one(request), "seconds": seconds}) + "\n")
        answers.flush()
        if not hasattr(os, "fork"):
            return


def _serve_one(request: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile("w+b") as output, tempfile.TemporaryFile("w+b") as answer:
        if hasattr(os, "fork"):
            child = os.fork()
            if not child:
                _run(request, output.fileno(), answer.fileno())
                os._exit(0)
            status = _wait(child)
        else:
            _run(request, output.fileno(), answer.fileno())
            status = 0
        answer.seek(0)
        text = answer.read()
        output.seek(0)
        printed = output.read().decode("utf-8", "replace")[-_OUTPUT_KEPT:]
        result: dict[str, Any] = json.loads(text) if text else {"died": _how(status)}
        return {**result, "output": printed}


def _wait(child: int) -> int:
    """The status that a child ends with. When the one who asked is gone, so is this process, with the child."""
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        if select.select([0], [], [], _POLL)[0]:
            os.killpg(0, signal.SIGKILL)


def _how(status: int) -> str:
    return f"signal {status & 0x7F}" if status & 0x7F else f"exit code {status >> 8}"


def _run(request: dict[str, Any], output: int, answer: int) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # the requests are not for the module to read
    os.dup2(output, 1)
    os.dup2(output, 2)
    result = _import(request)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the module may have closed or replaced it
            stream.flush()
    with os.fdopen(answer, "wb", closefd=False) as file:
        file.write(json.dumps(result).encode())


def _import(request: dict[str, Any]) -> dict[str, Any]:
    name, path, text = request["module"], request["path"], request["text"]
    if text is not None:
        give_text(name, path, text)
    try:
        module = importlib.import_module(name)
        exported = [str(entry) for entry in getattr(module, "__all__", ())]
        return {
            "file": getattr(module, "__file__", None),
            "exported": exported,
            "absent": [entry for entry in dict.fromkeys([*exported, *request["names"]]) if not hasattr(module, entry)],
        }
    except BaseException as error:
        lacks = error.name or "" if isinstance(error, ModuleNotFoundError) else ""
        return {"error": _said(error), "frames": _frames(error), "lacks": lacks}


def _said(error: BaseException) -> str:
    """An exception's type and the first line of its message."""
    try:
        message = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:
        message = "<exception str() failed>"
    lines = message.strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _frames(error: BaseException) -> list[tuple[str, int]]:
    """File and line of each frame of an import that failed, without the import system's own."""
    found: list[tuple[str, int]] = []
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith("<frozen") and file not in (__file__, importlib.__file__):
            found.append((file, trace.tb_lineno))
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        found.append((error.filename, error.lineno or 0))
    return found


if __name__ == "__main__":
    serve()
