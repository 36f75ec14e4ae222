"""The life of a rank: it answers the requests that come to all ranks of its group."""

from __future__ import annotations

import faulthandler
import importlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgen_core.errors import summarize_error
from patchgen_core.workers.generated_modules import import_generated_modules_from_text
from patchgen_core.workers.stacks import Frame

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

OUTPUT, STACK = "output", "stack"
"""What the files of a rank in its group's folder are called, before a dash and its number."""


@dataclass(frozen=True)
class Rank:
    """One of a group: its number, how many there are, and a folder that they share."""

    number: int
    size: int
    folder: Path


@dataclass(frozen=True)
class RankError:
    """An exception that a rank raised.

    Attributes:
        time: when, in nanoseconds of the clock that all ranks share.
        frames: where, the innermost first.
    """

    text: str
    time: int
    frames: tuple[Frame, ...] = ()


def serve_rank(number: int, size: int, handler: str, folder: str, requests: Connection[Any, Any]) -> None:
    """Answer requests until the process that asks is gone. What is printed goes to a file, which begins anew with
    every request."""
    rank = Rank(number, size, Path(folder))
    _redirect(rank.folder / f"{OUTPUT}-{number}")
    _write_stack_when_asked(rank.folder / f"{STACK}-{number}")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import_generated_modules_from_text()
    module, _, name = handler.partition(":")
    while True:
        sys.path[:], request = pickle.loads(requests.recv_bytes())
        os.ftruncate(1, 0)
        try:
            answer = pickle.dumps(getattr(importlib.import_module(module), name)(rank, request))
        except BaseException as error:
            when = time.monotonic_ns()
            traceback.print_exc()
            sys.stderr.flush()
            answer = pickle.dumps(RankError(summarize_error(error), when, _frames_of(error)))
        requests.send_bytes(answer)


def _frames_of(error: BaseException) -> tuple[Frame, ...]:
    stack = traceback.extract_tb(error.__traceback__)
    return tuple(Frame(one.filename, one.lineno or 0, one.name) for one in reversed(stack))


def _redirect(path: Path) -> None:
    stream = path.open("a", buffering=1, encoding="utf-8")
    os.dup2(stream.fileno(), 1)
    os.dup2(stream.fileno(), 2)
    sys.stdout = sys.stderr = stream
    faulthandler.enable(stream)


def _write_stack_when_asked(path: Path) -> None:
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, path.open("w"), all_threads=False)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
