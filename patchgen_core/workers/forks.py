"""Work that this process and forks of it share out to each other, part by part."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from patchgen_core.workers.held_back import hold_stderr_back
from patchgen_core.workers.processors import count_cpus

Value = TypeVar("Value")
Work = Callable[[Iterator[int]], Value]
"""Does the parts with these numbers, which nobody else does."""

_MOST_PROCESSES = 8
_BYTES = 4


def count_forks(parts: int) -> int:
    """How many forks of this process are of use for so many parts; none where a fork could not go on: it has none of
    the threads that there are here."""
    if sys.platform != "linux" or len(os.listdir("/proc/self/task")) > 1:
        return 0
    return max(min(parts, count_cpus(), _MOST_PROCESSES) - 1, 0)


def work_with_forks(
    parts: int, forks: int, work: Work[Value], meanwhile: Callable[[], object] = lambda: None
) -> list[Value]:
    """What the work comes to of this process, which comes first, and of forks of it. What they write to standard error
    is written here in the end. A fork that dies or raises anything has no value, and what it took remains undone.

    Nothing of the forks is left when this returns or raises. ``meanwhile`` is called when the work of this process is
    done and that of forks may not be.
    """
    if not forks:
        return [work(iter(range(parts)))]
    with ExitStack() as stack:
        numbers = stack.enter_context(tempfile.TemporaryFile(buffering=0))
        numbers.write(b"".join(number.to_bytes(_BYTES, "big") for number in range(parts)))
        numbers.seek(0)
        started: list[_Fork] = []
        with contextlib.suppress(OSError):  # the system has no further process
            for _ in range(forks):
                folder = tempfile.TemporaryDirectory(prefix="patchgen-", ignore_cleanup_errors=True)
                started.append(_Fork(numbers.fileno(), Path(stack.enter_context(folder)), work))
                stack.callback(started[-1].end)
        values = [work(_take(numbers.fileno()))]
        meanwhile()
        for fork in started:
            values += fork.read_value()
        return values


def _take(numbers: int) -> Iterator[int]:
    """The numbers in a file that several processes have open, of which each takes the next."""
    while number := os.read(numbers, _BYTES):
        yield int.from_bytes(number, "big")


class _Fork:
    """A fork of this process that works on parts. Its temporary files are in a folder that this one removes."""

    def __init__(self, numbers: int, folder: Path, work: Work[Any]) -> None:
        self._answer = folder / "answer"
        self._has_ended = False
        parent, self._process = os.getpid(), -1
        try:
            self._process = os.fork()
            if not self._process:
                tempfile.tempdir = os.fspath(folder)
                self._write_answer(work, (number for number in _take(numbers) if os.getppid() == parent))
                os._exit(0)
        finally:
            if not self._process:
                os._exit(1)

    def _write_answer(self, work: Work[Any], numbers: Iterator[int]) -> None:
        with hold_stderr_back() as read_stderr:
            data = pickle.dumps((work(numbers), read_stderr()))
        unfinished = self._answer.with_suffix(".unfinished")
        unfinished.write_bytes(data)
        unfinished.rename(self._answer)

    def read_value(self) -> list[Any]:
        """What its work comes to, once it has ended; nothing where it has no value."""
        self._wait()
        if not self._answer.exists():
            return []
        value, said = pickle.loads(self._answer.read_bytes())
        sys.stderr.write(said)
        return [value]

    def end(self) -> None:
        """Kill it, unless it has ended."""
        if not self._has_ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
            self._wait()

    def _wait(self) -> None:
        with contextlib.suppress(ChildProcessError):  # where this process ignores that children end
            os.waitpid(self._process, 0)
        self._has_ended = True
