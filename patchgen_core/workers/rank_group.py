"""Processes that do the same work together, as the ranks of a distributed run, and stay for the next request."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import pickle
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from patchgen_core.errors import PatchgenError
from patchgen_core.workers.fork_server import ForkServer
from patchgen_core.workers.frames import read_frame, write_frame
from patchgen_core.workers.opened_files import add_opened_files
from patchgen_core.workers.process import END_UNKNOWN, WorkerProcess, end_process, fork_process, start_process
from patchgen_core.workers.rank_loop import Rank, RankError
from patchgen_core.workers.scratch import scratch_folder
from patchgen_core.workers.search_path import search_path, start_path
from patchgen_core.workers.stacks import Frame, read_frames, split_output

_HANDLER = "patchgen_core.workers.rank_loop:answer_on_rank"
_OUTPUT_SHOWN = 2000
_SECONDS_BETWEEN_LOOKS = 0.5  # a rank's end is seen by itself, unless it leaves a child behind
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

    They are not forked from this process, whose threads may hold locks, but from a fork server: from the one that the
    environment names, or where that has another environment or other packages, from one of this process. Where that is
    so of this one as well, or nothing can be forked, each rank does what it begins with itself.

    Args:
        handler: ``package.module:function`` of the function that each rank calls with its
            :class:`~patchgen_core.workers.rank_loop.Rank` and the request, and that returns its answer.
        size: how many.
        preparation: ``package.module:function`` of what a rank begins with in any case: importing; empty for nothing.
    """

    def __init__(self, handler: str, size: int, preparation: str = "") -> None:
        self.handler, self.size, self.preparation = handler, size, preparation
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._ranks: list[WorkerProcess] = []
        self._outputs: list[IO[bytes]] = []

    def __enter__(self) -> RankGroup:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the ranks."""
        for process in self._ranks:
            end_process(process)
        for output in self._outputs:
            output.close()
        if self._folder is not None:
            self._folder.cleanup()
        self._ranks, self._outputs, self._folder = [], [], None

    def ask(self, request: object, time_limit: float) -> list[Any]:
        """The answer of each rank, in their order.

        Raises:
            RanksFailed: one raised an exception or ended, or they took longer than ``time_limit`` seconds.
            PatchgenError: they cannot be started.
        """
        try:
            folder = self._start()
        except Exception as error:
            self.close()
            text = " ".join(str(error).split())
            raise PatchgenError(f"ranks cannot be started: {type(error).__name__}: {text}") from error
        try:
            for number, (process, output) in enumerate(zip(self._ranks, self._outputs, strict=True)):
                os.ftruncate(output.fileno(), 0)
                assert process.stdin is not None
                asked = Rank(number, self.size, folder), self.handler, request
                with contextlib.suppress(BrokenPipeError):  # one that has ended shows below
                    write_frame(process.stdin, (search_path(()), str(folder), asked))
            return self._collect(time.monotonic() + time_limit, time_limit)
        except BaseException:
            self.close()
            raise

    def _start(self) -> Path:
        """The folder that the ranks share, which are started unless they run."""
        if self._folder is None or any(process.poll() is not None for process in self._ranks):
            self.close()
            self._folder = tempfile.TemporaryDirectory(prefix="patchgen-ranks-", dir=scratch_folder())
            while len(self._ranks) < self.size:
                self._outputs.append(tempfile.TemporaryFile("a+b"))  # noqa: SIM115 - as long as the rank
                self._ranks.append(_start_rank(self._outputs[-1].fileno(), self.preparation))
        return Path(self._folder.name)

    def _collect(self, end: float, time_limit: float) -> list[Any]:
        answers: dict[int, Any] = {}
        errors: dict[int, RankError] = {}
        while len(answers) < self.size:
            seconds = end - time.monotonic()
            if seconds <= 0:
                raise RanksFailed(None, f"takes over {time_limit:g} s", self._states(answers, with_stacks=True))
            self._receive(answers, errors, min(seconds, _SECONDS_BETWEEN_LOOKS))
            if errors:  # one that it failed of may have ended, which is heard of a little later
                self._receive(answers, errors, _SECONDS_TO_HEAR_OF_AN_END)
            ended = self._ended()
            if ended or errors:
                raise self._failure(ended, answers, errors)
        return [answers[number] for number in range(self.size)]

    def _receive(self, answers: dict[int, Any], errors: dict[int, RankError], seconds: float) -> None:
        """Take the answers that come at the same time, for which it waits so long."""
        waiting = {
            process.stdout: number
            for number, process in enumerate(self._ranks)
            if process.stdout is not None and number not in answers and number not in errors
        }
        for stream in select.select(list(waiting), [], [], seconds)[0]:
            frame = read_frame(stream)
            if frame is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._ranks[waiting[stream]].wait(_SECONDS_TO_END)
                continue
            answer, _, _, opened = pickle.loads(frame)
            add_opened_files(opened)
            if isinstance(answer, RankError):
                errors[waiting[stream]] = answer
            else:
                answers[waiting[stream]] = pickle.loads(answer)

    def _ended(self) -> list[int]:
        """The ranks that have ended; where one has, the others are given a moment to do so as well."""
        if any(process.poll() is not None for process in self._ranks):
            for process in self._ranks:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_SECONDS_TO_HEAR_OF_AN_END)
        return [number for number, process in enumerate(self._ranks) if process.poll() is not None]

    def _failure(self, ended: list[int], answers: dict[int, Any], errors: dict[int, RankError]) -> RanksFailed:
        """What the first rank says that failed; one that could not even say so comes before, since the errors of the
        others are mostly its absence."""
        states = self._states(answers, with_stacks=False)
        if ended:
            return RanksFailed(ended[0], _describe_end(self._ranks[ended[0]].wait()), states)
        rank = min(errors, key=lambda rank: errors[rank].time)
        states[rank] = replace(states[rank], frames=errors[rank].frames)
        return RanksFailed(rank, f"fails: {errors[rank].text}", states)

    def _states(self, answers: dict[int, Any], with_stacks: bool) -> list[RankState]:
        if with_stacks:
            self._dump_stacks()
        return [self._state(number, number in answers) for number in range(self.size)]

    def _state(self, number: int, has_answered: bool) -> RankState:
        output, dump = split_output(self._read(number))
        return RankState(number, has_answered, read_frames(dump), output[-_OUTPUT_SHOWN:].strip())

    def _dump_stacks(self) -> None:
        if not hasattr(signal, "SIGUSR1"):
            return
        for process in self._ranks:
            if process.poll() is None:
                process.send_signal(signal.SIGUSR1)
        end = time.monotonic() + _SECONDS_FOR_STACKS
        sizes: list[int] = []
        while time.monotonic() < end:
            before, sizes = sizes, [len(split_output(self._read(number))[1]) for number in range(self.size)]
            if all(sizes) and sizes == before:
                return
            time.sleep(0.1)

    def _read(self, number: int) -> str:
        """What a rank wrote since the last request."""
        file = self._outputs[number].fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode("utf-8", "replace")  # the rank writes at its place


def _start_rank(error: int, preparation: str) -> WorkerProcess:
    path = start_path()
    process = fork_process(_HANDLER, path, error, preparation)
    if process is not None:
        return process
    folder = _own_server(preparation).folder if preparation else ""
    return start_process(_HANDLER, path, error, preparation, folder)


@functools.cache
def _own_server(preparation: str) -> ForkServer:
    """A server for the ranks of this process alone."""
    server = ForkServer({preparation: ""}, is_announced=False)
    server.start()
    atexit.register(server.close)
    return server


def _describe_end(code: int) -> str:
    if code == END_UNKNOWN:
        return "ends before it is done"
    if code >= 0:
        return f"ends with exit code {code} before it is done"
    with contextlib.suppress(ValueError):
        return f"is killed by {signal.Signals(-code).name}"
    return f"is killed by signal {-code}"
