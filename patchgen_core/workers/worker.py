"""A process that answers requests, for what must not happen in this one."""

from __future__ import annotations

import contextlib
import pickle
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from patchgen_core.errors import PatchgenError
from patchgen_core.workers.frames import load_answer, read_frame, write_frame
from patchgen_core.workers.phases import count, phase
from patchgen_core.workers.process import END_UNKNOWN, WorkerProcess, end_process, kill_process, start_process
from patchgen_core.workers.processors import keep_on_processors
from patchgen_core.workers.scratch import scratch_folder
from patchgen_core.workers.search_path import search_path, start_path

_SECONDS_TO_DUMP = 0.5


class WorkerDied(Exception):
    """A worker has ended, or took too long, and has not answered; ``output`` is its last and what it was doing."""

    def __init__(self, how: str, output: str) -> None:
        super().__init__(how)
        self.how, self.output = how, output


class NoRoom(WorkerDied):
    """No machine had room for a worker in the time that there was for it."""


class Worker:
    """A process that answers requests, one after the other; a context manager that ends it.

    The process is started by the first request, and again by the first one after it has died. It ends with this one.

    Args:
        handler: ``package.module:function`` of the function that takes a request and returns its answer there. An
            answer may hold objects only of modules that are imported here.
        time_limit: seconds that one request may take.
        roots: folders that come first on its ``sys.path``, before those of this process.
        output_kept: how many bytes of the last that it wrote are told when it dies.
        processors: those that it runs on, with what it starts; none for those of this process.

    Attributes:
        opened: the files that its processes opened to read, of the system and of what is installed none.
    """

    def __init__(
        self,
        handler: str,
        time_limit: float,
        roots: Iterable[str | Path] = (),
        output_kept: int = 4000,
        processors: frozenset[int] = frozenset(),
    ) -> None:
        self.handler, self.time_limit, self.roots, self.output_kept = handler, time_limit, tuple(roots), output_kept
        self.opened: set[str] = set()
        self._processors = processors
        self._process: WorkerProcess | None = None
        self._output: IO[bytes] | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._unread_answers = 0

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process, with the children it has."""
        process, output, scratch = self._process, self._output, self._scratch
        self._process = self._output = self._scratch = None
        self._unread_answers = 0
        if process is not None:
            end_process(process)
        if output is not None:
            output.close()
        if scratch is not None:
            scratch.cleanup()

    def interrupt(self) -> None:
        """End what the process does for another thread, whose :meth:`ask` then raises a WorkerDied."""
        process = self._process
        if process is not None:
            kill_process(process)

    def tell(self, request: object, preparation: str = "") -> None:
        """Send a request and do not wait for the answer; whatever goes wrong is left for the next :meth:`ask` to
        meet."""
        with contextlib.suppress(OSError):
            self._send(self._running(preparation), request)
            self._unread_answers += 1

    def ask(self, request: object, preparation: str = "") -> Any:
        """The answer to a request. Seconds by phase that the worker counted are counted here.

        Args:
            preparation: ``package.module:function`` of what the handler begins with in any case when this is the first
                request; where a fork server has processes that have done it, the worker is forked from one.

        Raises:
            PatchgenError: the handler raised it.
            WorkerDied: the process has ended or takes too long.
            OSError: no process can be started.
        """
        process = self._running(preparation)
        try:
            with _time_limit(process, self.time_limit) as is_late:
                self._send(process, request)
                frame = self._read_answer(process)
                answer, problems, seconds, opened = load_answer(frame) if frame is not None else (None, None, {}, ())
        except BrokenPipeError:
            frame = None
        except pickle.UnpicklingError as error:
            raise self._died(f"its answer cannot be read: {error}") from None
        except BaseException:  # a test that is interrupted leaves no answer behind for the next one
            self.close()
            raise
        if frame is None:
            is_killed = is_late.is_set()
            raise self._died(f"no answer within {self.time_limit:g} s" if is_killed else _how_it_ended(process))
        count(seconds)
        self.opened.update(opened)
        if problems is not None:
            raise PatchgenError.from_problems(problems)
        return answer

    def _send(self, process: WorkerProcess, request: object) -> None:
        assert process.stdin is not None
        assert self._scratch is not None
        write_frame(process.stdin, (search_path(self.roots), self._scratch.name, request))

    def _read_answer(self, process: WorkerProcess) -> bytes | None:
        """The answer to the last request; None when the process ends before."""
        assert process.stdout is not None
        with phase("waiting for a process to be ready"):
            while self._unread_answers and read_frame(process.stdout) is not None:
                self._unread_answers -= 1
        return read_frame(process.stdout)

    def _running(self, preparation: str) -> WorkerProcess:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._scratch = tempfile.TemporaryDirectory(
                prefix="patchgen-", dir=scratch_folder(), ignore_cleanup_errors=True
            )
            self._output = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
            self._process = start_process(self.handler, start_path(self.roots), self._output.fileno(), preparation)
            keep_on_processors(self._process.pid, self._processors)
        return self._process

    def _died(self, how: str) -> WorkerDied:
        output = b""
        if self._output is not None:
            self._output.seek(0)
            output = self._output.read()[-self.output_kept :]
        self.close()
        return WorkerDied(how, output.decode("utf-8", "replace"))


@contextlib.contextmanager
def _time_limit(process: WorkerProcess, seconds: float) -> Iterator[threading.Event]:
    """Kill a process that is not done within that; the event tells whether that was so."""
    is_late = threading.Event()

    def give_up() -> None:
        is_late.set()
        _have_stack_dumped(process)
        kill_process(process)

    timer = threading.Timer(seconds, give_up)
    timer.start()
    try:
        yield is_late
    finally:
        timer.cancel()
        timer.join()  # it may be about to kill the process, which is there until it is closed


def _have_stack_dumped(process: WorkerProcess) -> None:
    if hasattr(signal, "SIGUSR1"):
        process.send_signal(signal.SIGUSR1)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_TO_DUMP)


def _how_it_ended(process: WorkerProcess) -> str:
    ended = "its process has ended"
    with contextlib.suppress(subprocess.TimeoutExpired):
        code = process.wait(5)
        if code == END_UNKNOWN:
            return ended
        return f"{ended} by {_signal_name(-code)}" if code < 0 else f"{ended} with exit code {code}"
    return ended


def _signal_name(number: int) -> str:
    """A signal's name; for the one that the system sends when memory is used up, that too."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    return f"{name}, as when memory runs out" if name == "SIGKILL" else name
