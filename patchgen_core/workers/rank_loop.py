"""What a rank does: it answers the requests that come to all ranks of its group."""

from __future__ import annotations

import importlib
import io
import pickle
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.errors import summarize_error
from patchgen_core.workers.stacks import Frame


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


def answer_on_rank(asked: tuple[Rank, str, object]) -> bytes | RankError:
    """The pickle of what a handler, a ``package.module:function``, makes of its rank and a request; or what it
    raises."""
    rank, handler, request = asked
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # a rank that is killed has written all that it printed
    module, _, name = handler.partition(":")
    try:
        return _pickle_answer(getattr(importlib.import_module(module), name)(rank, request))
    except BaseException as error:
        when = time.monotonic_ns()
        traceback.print_exc()
        sys.stderr.flush()
        return RankError(summarize_error(error), when, _frames_of(error))


def _pickle_answer(answer: object) -> bytes:
    try:
        return pickle.dumps(answer)
    except Exception as error:
        raise TypeError(f"the answer cannot be pickled: {summarize_error(error)}") from error


def _frames_of(error: BaseException) -> tuple[Frame, ...]:
    stack = traceback.extract_tb(error.__traceback__)
    return tuple(Frame(one.filename, one.lineno or 0, one.name) for one in reversed(stack))
