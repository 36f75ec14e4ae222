"""Requests shared out to several workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue
from typing import TypeVar

from patchgen_core.errors import PatchgenError
from patchgen_core.workers.worker import Worker, WorkerDied

_TIME_LIMIT = 3600.0

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class WorkerPool(ExitStack):
    """Workers that answer requests beside each other, each started by its first; a context manager that ends them."""

    def __init__(self, handler: str, size: int) -> None:
        super().__init__()
        self._threads = self.enter_context(ThreadPoolExecutor(size))
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        for _ in range(size):
            self._idle.put(self.enter_context(Worker(handler, _TIME_LIMIT)))
        self.callback(self._threads.shutdown, wait=False, cancel_futures=True)

    def ask(self, request: object, instead: Callable[[], Answer]) -> Answer:
        """The answer of the next idle worker; ``instead`` gives it when that dies of it or raises a PatchgenError."""
        worker = self._idle.get()
        try:
            answer: Answer = worker.ask(request)
            return answer
        except (WorkerDied, PatchgenError):
            pass
        finally:
            self._idle.put(worker)
        return instead()

    def map(self, function: Callable[[Item], Answer], items: Iterable[Item]) -> Iterator[Answer]:
        """What a function that asks makes of each item, in their order; there is a thread for each worker."""
        return self._threads.map(function, items)
