"""Units of tasks shared out to processes, of this machine or of others."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from patchgen_core.workers.machine import count_processors
from patchgen_core.workers.processors import list_processors, share_out
from patchgen_core.workers.units import Task, Unit, UnitWorker
from patchgen_core.workers.worker import NoRoom, Worker, WorkerDied

_NO_LIMIT = threading.TIMEOUT_MAX / 2
_SECONDS_TO_END = 0.2
_MOST_DEATHS = 2
_STARTS = 3


class _LocalProcess(Worker):
    """A process of this machine, which is started by a request."""

    def start(self) -> None:
        """Nothing."""

    def is_ready(self) -> bool:
        """Always: a request starts what is not there."""
        return True


def make_workers(handler: str, size: int) -> list[_LocalProcess]:
    """So many processes of this machine, whose requests the ``package.module:function`` answers.

    Each has its share of the processors, where this process may keep all of them busy: ranks that talk to each other
    do so in half of the time on one processor, where none has to wake up another one.
    """
    processors = list_processors()
    shares = share_out(processors if len(processors) == count_processors() else frozenset(), size)
    return [_LocalProcess(handler, _NO_LIMIT, processors=share) for share in shares]


@dataclass(eq=False)
class _Job:
    """A task, the answer to come, and how many processes have ended over it."""

    task: Task
    subject: str
    answer: Future[Any] = field(default_factory=Future)
    deaths: int = 0


class UnitExecutor:
    """Does units in processes, which are started when there is something for them to do, and end when there is not.

    When a process ends without an answer, the task is done anew, once, by the process that takes the other's place or
    by one that is free before.

    Args:
        processors: how many processors the processes keep busy together, at least one each. A task that needs more
            occupies half of what it needs: much of what it does is done by one process.
        divides: whether a process for which there is no unit left takes half of what is left of another one's.
    """

    def __init__(self, workers: Sequence[UnitWorker], processors: int, divides: bool = False) -> None:
        self._workers, self._divides = list(workers), divides
        self._threads: list[threading.Thread] = []
        self._units: deque[deque[_Job]] = deque()
        self._begun: dict[UnitWorker, deque[_Job]] = {}
        self._running: dict[Future[Any], UnitWorker] = {}
        self._interrupted: set[Future[Any]] = set()
        self._state = threading.Condition()
        self._processors = _Processors(max(processors, len(self._workers)))
        self._owners: dict[str, UnitWorker] = {}
        self._at_work = 0
        self._is_closed = False

    def submit(self, units: Sequence[Unit], subjects: Sequence[str] = ()) -> list[list[Future[Any]]]:
        """Have units done, begun about in their order; the answers to come. A process rather takes units whose subject
        it has had before."""
        subjects = subjects or [""] * len(units)
        jobs = [[_Job(task, subject) for task in unit] for unit, subject in zip(units, subjects, strict=True)]
        with self._state:
            self._units.extend(map(deque, jobs))
            self._state.notify_all()
        for worker in self._workers[len(self._threads) : len(self._threads) + len(units)]:
            thread = threading.Thread(target=self._work, args=(worker,), daemon=True)
            self._threads.append(thread)
            self._at_work += 1
            thread.start()
        return [[job.answer for job in unit] for unit in jobs]

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
                self._interrupted.update(self._running)
                for worker in self._workers:
                    worker.interrupt()
            for thread in self._threads:
                thread.join(_SECONDS_TO_END)

    def _work(self, worker: UnitWorker) -> None:
        with closing(worker):
            try:
                while self._wait_for_unit():
                    self._start(worker)
                    while (unit := self._next_unit(worker)) is not None and self._do_unit(worker, unit):
                        pass
                    if unit is None:
                        worker.close()
            except Exception as error:
                self._leave(error)

    def _start(self, worker: UnitWorker) -> None:
        """Start a process, once more where it ends at once: a node may not get the project at the moment."""
        for further in reversed(range(_STARTS)):
            try:
                worker.start()
                return
            except WorkerDied as error:
                if not further or self._is_closed or isinstance(error, NoRoom):
                    raise

    def _wait_for_unit(self) -> bool:
        with self._state:
            self._state.wait_for(lambda: self._units or self._is_closed)
            return not self._is_closed

    def _next_unit(self, worker: UnitWorker) -> deque[_Job] | None:
        with self._state:
            self._begun.pop(worker, None)
            unit = None if self._is_closed else self._take_unit(worker) if self._units else self._take_half()
            if unit is not None:
                self._begun[worker] = unit
            return unit

    def _take_unit(self, worker: UnitWorker) -> deque[_Job]:
        near = [self._owners.get(unit[0].subject) for _, unit in zip(range(2 * len(self._workers)), self._units)]
        place = next((near.index(owner) for owner in (worker, None) if owner in near), 0)
        unit = self._units[place]
        del self._units[place]
        if unit[0].subject:
            self._owners[unit[0].subject] = worker
        return unit

    def _take_half(self) -> deque[_Job] | None:
        """The second half of the most that is left of a unit."""
        left = max(self._begun.values(), key=len, default=None)
        if not self._divides or not left:
            return None
        half = deque(left.pop() for _ in range((len(left) + 1) // 2))
        half.reverse()
        return half

    def _leave(self, error: Exception) -> None:
        """Leave the rest to the other processes; where there is none, or all would fail alike, that is the answer."""
        with self._state:
            self._at_work -= 1
            if isinstance(error, WorkerDied) and self._at_work:
                return
            jobs = [job for unit in self._units for job in unit]
            self._units.clear()
        for job in jobs:
            if job.deaths or job.answer.set_running_or_notify_cancel():
                job.answer.set_exception(error)

    def _do_unit(self, worker: UnitWorker, unit: deque[_Job]) -> bool:
        """Do the tasks of a unit; whether that came to its end. What a process that has ended leaves is for others."""
        while (job := self._next_job(unit)) is not None:
            is_ready = worker.is_ready()
            if is_ready and not (job.deaths or job.answer.set_running_or_notify_cancel()):
                continue
            if not is_ready or not self._do(worker, job):
                with self._state:
                    if not job.answer.done():
                        unit.appendleft(job)
                    self._begun.pop(worker, None)
                    if unit and not self._is_closed:
                        self._units.appendleft(unit)
                        self._state.notify_all()
                return False
        return True

    def _next_job(self, unit: deque[_Job]) -> _Job | None:
        with self._state:
            return unit.popleft() if unit else None

    def _do(self, worker: UnitWorker, job: _Job) -> bool:
        """Do a task; whether its process is still there."""
        try:
            with self._processors.occupied(job.task.processors), self._noted(worker, job.answer):
                result = worker.ask(job.task.request)
        except WorkerDied as error:
            job.deaths += 1
            if job.deaths == _MOST_DEATHS or job.answer in self._interrupted:
                job.answer.set_exception(error)
            return False
        except Exception as error:
            job.answer.set_exception(error)
        else:
            job.answer.set_result(result)
        return True

    @contextmanager
    def _noted(self, worker: UnitWorker, answer: Future[Any]) -> Iterator[None]:
        """Know which process is at work for an answer."""
        with self._state:
            if self._is_closed:
                self._interrupted.add(answer)
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
        """Wait for half of so many, or of all where there are not so many, and occupy them."""
        wanted, place = (min(wanted, self._number) + 1) // 2, object()
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
