"""Units of tasks shared out to processes of this machine."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from patchgen_core.errors import PatchgenError
from patchgen_core.workers.units import Task, Unit
from patchgen_core.workers.worker import Worker, WorkerDied

_NO_LIMIT = threading.TIMEOUT_MAX / 2
_SECONDS_TO_END = 0.2
_Job = tuple[Task, "Future[Any]"]


class ProcessExecutor:
    """Does units in so many processes, which are started when there is something for them to do.

    A process that ends without an answer is started anew for the same task, once.

    Args:
        handler: ``package.module:function`` of the function that takes a request and returns its answer there.
        size: how many processes there are.
        processors: how many processors they keep busy together; a task that needs more runs alone.
    """

    def __init__(self, handler: str, size: int, processors: int) -> None:
        self._workers = [Worker(handler, _NO_LIMIT) for _ in range(size)]
        self._threads: list[threading.Thread] = []
        self._units: deque[list[_Job]] = deque()
        self._running: dict[Future[Any], Worker] = {}
        self._interrupted: set[Future[Any]] = set()
        self._state = threading.Condition()
        self._processors = _Processors(max(processors, size))
        self._is_closed = False

    def submit(self, units: Sequence[Unit]) -> list[list[Future[Any]]]:
        """Have units done, begun in their order; the answers to come."""
        jobs: list[list[_Job]] = [[(task, Future()) for task in unit] for unit in units]
        with self._state:
            self._units.extend(jobs)
            self._state.notify_all()
        for worker in self._workers[len(self._threads) : len(self._threads) + len(units)]:
            thread = threading.Thread(target=self._work, args=(worker,), daemon=True)
            self._threads.append(thread)
            thread.start()
        return [[answer for _, answer in unit] for unit in jobs]

    def interrupt(self, answer: Future[Any]) -> None:
        """End what is being done for an answer that nobody waits for any more."""
        answer.cancel()
        with self._state:
            worker = self._running.get(answer)
            if worker is not None:
                self._interrupted.add(answer)
                worker.interrupt()

    def close(self) -> None:
        """End the processes."""
        with self._state:
            self._is_closed = True
            self._units.clear()
            self._state.notify_all()
        self._processors.close()
        while any(thread.is_alive() for thread in self._threads):
            with self._state:  # a process that was just being started is met the next time
                for answer, worker in self._running.items():
                    self._interrupted.add(answer)
                    worker.interrupt()
            for thread in self._threads:
                thread.join(_SECONDS_TO_END)

    def _work(self, worker: Worker) -> None:
        with worker:
            while (unit := self._next_unit()) is not None:
                for task, answer in unit:
                    if not self._is_closed and answer.set_running_or_notify_cancel():
                        self._do(worker, task, answer)

    def _next_unit(self) -> list[_Job] | None:
        with self._state:
            while not self._units and not self._is_closed:
                self._state.wait()
            return None if self._is_closed else self._units.popleft()

    def _do(self, worker: Worker, task: Task, answer: Future[Any]) -> None:
        try:
            with self._processors.occupied(task.processors), self._noted(worker, answer):
                result = self._ask(worker, task, answer)
        except (PatchgenError, WorkerDied, OSError) as error:
            answer.set_exception(error)
        else:
            answer.set_result(result)

    def _ask(self, worker: Worker, task: Task, answer: Future[Any]) -> Any:
        try:
            return worker.ask(task.request)
        except WorkerDied:
            if answer in self._interrupted:
                raise
        return worker.ask(task.request)

    @contextmanager
    def _noted(self, worker: Worker, answer: Future[Any]) -> Iterator[None]:
        """Know which process is at work for an answer."""
        with self._state:
            if self._is_closed:
                raise WorkerDied("the run has ended", "")
            self._running[answer] = worker
        try:
            yield
        finally:
            with self._state:
                del self._running[answer]


class _Processors:
    """Processors that tasks occupy in the order in which they ask, so that one that needs many is not passed over."""

    def __init__(self, number: int) -> None:
        self._number, self._free = number, number
        self._queue: deque[object] = deque()
        self._state = threading.Condition()
        self._is_closed = False

    @contextmanager
    def occupied(self, wanted: int) -> Iterator[None]:
        """Wait for so many, or for all where there are not so many, and occupy them."""
        wanted, place = min(wanted, self._number), object()
        with self._state:
            self._queue.append(place)
            self._state.wait_for(lambda: self._is_closed or (self._queue[0] is place and self._free >= wanted))
            self._queue.remove(place)
            self._free -= wanted
            self._state.notify_all()
        try:
            yield
        finally:
            with self._state:
                self._free += wanted
                self._state.notify_all()

    def close(self) -> None:
        """Have nobody wait any longer."""
        with self._state:
            self._is_closed = True
            self._state.notify_all()
