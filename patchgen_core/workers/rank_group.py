"""Processes that do the same work together, as the ranks of a distributed run, and stay for the next request."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgen_core.errors import PatchgenError
from patchgen_core.workers.fork_request import Origin, find_origins
from patchgen_core.workers.rank_loop import OUTPUT, STACK, RankError, serve_rank
from patchgen_core.workers.stacks import CRASH, Frame, read_frames
from patchgen_core.workers.worker import import_first, search_path

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerContext, SpawnContext

_OUTPUT_SHOWN = 2000
_SECONDS_FOR_STACKS = 3.0
_SECONDS_TO_HEAR_OF_AN_END = 0.5
_SECONDS_TO_END = 10.0


@dataclass(frozen=True)
class RankState:
    """What a rank was doing when its group was ended.

    Attributes:
        has_answered: whether it had done its part.
        frames: its Python stack, or where it raised, the innermost frame first; empty where that is not known.
        output: the last that it wrote.
    """

    rank: int
    has_answered: bool
    frames: tuple[Frame, ...] = ()
    output: str = ""


class RanksFailed(Exception):
    """Ranks have not answered.

    Attributes:
        rank: the first one that failed, by the clock; None when the time was over.
        how: what became of it, such as ``fails: ValueError: no such layer`` or ``is killed by SIGSEGV``; of all,
            ``takes over 60 s``.
        states: what every rank was doing.
    """

    def __init__(self, rank: int | None, how: str, states: Sequence[RankState]) -> None:
        super().__init__(how)
        self.rank, self.how, self.states = rank, how, tuple(states)


class RankGroup:
    """Processes that each answer every request; a context manager that ends them.

    They are started by the first request, and again by the first one after one has failed: then all of them end, so
    that none waits for another. They end with this process.

    They are not forked from this process, whose threads may hold locks, but from a server that has imported
    ``preload`` by the search path of this process and done nothing else. The main script is imported anew there: one
    that is no module guards what it does with ``if __name__ == "__main__"``.

    Args:
        handler: ``package.module:function`` of the function that each rank calls with its
            :class:`~patchgen_core.workers.rank_loop.Rank` and the request, and that returns its answer.
        size: how many.
        preload: modules for the server to import.
    """

    def __init__(self, handler: str, size: int, preload: Sequence[str] = ()) -> None:
        self.handler, self.size, self.preload = handler, size, tuple(preload)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._ranks: list[BaseProcess] = []
        self._connections: list[Connection[Any, Any]] = []

    def __enter__(self) -> RankGroup:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the ranks."""
        for process in self._ranks:
            if process.pid is not None:
                process.kill()
                process.join()
        for end in self._connections:
            end.close()
        if self._folder is not None:
            self._folder.cleanup()
        self._ranks, self._connections, self._folder = [], [], None

    def ask(self, request: object, time_limit: float) -> list[Any]:
        """The answer of each rank, in their order.

        Raises:
            RanksFailed: one raised an exception or ended, or they took longer than ``time_limit`` seconds.
            PatchgenError: they cannot be started.
        """
        try:
            self._start()
        except Exception as error:
            self.close()
            text = " ".join(str(error).split())
            raise PatchgenError(f"ranks cannot be started: {type(error).__name__}: {text}") from error
        try:
            message = pickle.dumps((search_path(()), request))
            for end in self._connections:
                with contextlib.suppress(OSError):  # one that has ended shows below
                    end.send_bytes(message)
            return self._collect(time.monotonic() + time_limit, time_limit)
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        if self._ranks and all(process.exitcode is None for process in self._ranks):
            return
        self.close()
        context = rank_context(self.preload)
        self._folder = tempfile.TemporaryDirectory(prefix="patchgen-ranks-")
        for rank in range(self.size):
            here, there = context.Pipe()
            self._connections.append(here)
            arguments = (rank, self.size, self.handler, self._folder.name, there)
            process = context.Process(target=serve_rank, args=arguments, daemon=True)
            self._ranks.append(process)
            process.start()
            there.close()

    def _collect(self, end: float, time_limit: float) -> list[Any]:
        answers: dict[int, Any] = {}
        errors: dict[int, RankError] = {}
        while len(answers) < self.size:
            waiting: dict[Any, int] = {self._connections[r]: r for r in range(self.size) if r not in answers}
            waiting |= {process.sentinel: rank for rank, process in enumerate(self._ranks)}
            ready = connection.wait(list(waiting), max(0.0, end - time.monotonic()))
            if not ready:
                states = self._states(answers, with_stacks=True)
                raise RanksFailed(None, f"takes over {time_limit:g} s", states)
            for one in ready:
                if waiting[one] not in answers and one is self._connections[waiting[one]]:
                    self._receive(waiting[one], answers, errors)
            if errors:  # one that it failed of may have ended, which is heard of a little later
                self._hear_of_others(answers, errors)
            ended = self._ended()
            if ended or errors:
                raise self._failure(ended, answers, errors)
        return [answers[rank] for rank in range(self.size)]

    def _hear_of_others(self, answers: dict[int, Any], errors: dict[int, RankError]) -> None:
        others = {self._connections[r]: r for r in range(self.size) if r not in answers and r not in errors}
        for one in connection.wait(list(others), _SECONDS_TO_HEAR_OF_AN_END):
            self._receive(others[one], answers, errors)  # type: ignore[index]

    def _ended(self) -> list[int]:
        """The ranks that have ended; where one has, the others are given a moment to do so as well."""
        if any(process.exitcode is not None for process in self._ranks):
            for process in self._ranks:
                process.join(_SECONDS_TO_HEAR_OF_AN_END)
        return [rank for rank, process in enumerate(self._ranks) if process.exitcode is not None]

    def _receive(self, rank: int, answers: dict[int, Any], errors: dict[int, RankError]) -> None:
        try:
            answer = pickle.loads(self._connections[rank].recv_bytes())
        except (EOFError, OSError):  # its process has ended
            self._ranks[rank].join(_SECONDS_TO_END)
            return
        if isinstance(answer, RankError):
            errors[rank] = answer
        else:
            answers[rank] = answer

    def _failure(self, ended: list[int], answers: dict[int, Any], errors: dict[int, RankError]) -> RanksFailed:
        """What the first rank says that failed; one that could not even say so comes before, since the errors of the
        others are mostly its absence."""
        states = self._states(answers, with_stacks=False)
        if ended:
            return RanksFailed(ended[0], _how(self._ranks[ended[0]].exitcode or 0), states)
        rank = min(errors, key=lambda rank: errors[rank].time)
        states[rank] = replace(states[rank], frames=errors[rank].frames)
        return RanksFailed(rank, f"fails: {errors[rank].text}", states)

    def _states(self, answers: dict[int, Any], with_stacks: bool) -> list[RankState]:
        if with_stacks:
            self._dump_stacks()
        return [self._state(rank, rank in answers) for rank in range(self.size)]

    def _state(self, rank: int, has_answered: bool) -> RankState:
        output, _, crash = self._read(OUTPUT, rank).partition(CRASH)
        stack = self._read(STACK, rank) or crash
        return RankState(rank, has_answered, read_frames(stack), output[-_OUTPUT_SHOWN:].strip())

    def _dump_stacks(self) -> None:
        if not hasattr(signal, "SIGUSR1"):
            return
        for process in self._ranks:
            if process.pid is not None and process.exitcode is None:
                os.kill(process.pid, signal.SIGUSR1)
        end = time.monotonic() + _SECONDS_FOR_STACKS
        sizes: list[int] = []
        while time.monotonic() < end:
            before, sizes = sizes, [len(self._read(STACK, rank)) for rank in range(self.size)]
            if all(sizes) and sizes == before:
                return
            time.sleep(0.1)

    def _read(self, name: str, rank: int) -> str:
        assert self._folder is not None
        path = Path(self._folder.name, f"{name}-{rank}")
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def rank_context(preload: Sequence[str]) -> ForkServerContext | SpawnContext:
    """How ranks are started on this system: forked from a server that has imported ``preload``, which is started where
    there is none. Where it found other packages than the search path of this process leads to now, and where there is
    no such server, each imports them itself."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    path = search_path(())
    origins = find_origins(sorted({name.partition(".")[0] for name in preload}), path)
    with import_first(path):  # the server is told of no other path
        forkserver.ensure_running()
    if any(_ORIGINS_OF_SERVER.setdefault(name, origin) != origin for name, origin in origins.items()):
        return multiprocessing.get_context("spawn")
    return context


_ORIGINS_OF_SERVER: dict[str, Origin | None] = {}
"""Where the server of this process found the packages that it imported."""


def _how(code: int) -> str:
    if code >= 0:
        return f"ends with exit code {code} before it is done"
    with contextlib.suppress(ValueError):
        return f"is killed by {signal.Signals(-code).name}"
    return f"is killed by signal {-code}"
