"""Processes beside the server that answer its questions, each asked by one thread."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, PriorityQueue
from typing import Any

from patchgen_core.errors import PatchgenError
from patchgen_core.workers.worker import Worker, WorkerDied
from patchgen_lsp.request import REST, TIDY, Request

ANALYSIS = "patchgen_lsp.analysis.answering:answer"
"""What loads and generates configs."""
STANDINGS = "patchgen_lsp.analysis.standings:answer"
"""What looks at everything that kept results depend on, which takes a second."""
AUTHORING = "patchgen_lsp.authoring.answering:answer"
"""What writes configs anew, and needs libcst for that."""


_END = 2
_IDLE = 0.5
"""Seconds without a question after which a process rests."""


@dataclass(order=True)
class _Question:
    """A request that waits: the lower its rank and then its number, the sooner it is asked."""

    rank: int
    number: int
    request: Request = field(compare=False)
    future: Future[Any] = field(compare=False)


class Analyst:
    """Answers requests one at a time, off the event loop: those that a person waits for before those of files that
    nobody looks at.

    A config that never ends, or that ends its process, costs its own answer: the next request gets a new process.

    Args:
        is_brief: whether the process ends with each answer, because it is seldom asked.
    """

    def __init__(self, time_limit: float, handler: str = ANALYSIS, is_brief: bool = False) -> None:
        self._worker = Worker(handler, time_limit)
        self._is_brief = is_brief
        self._questions: PriorityQueue[_Question] = PriorityQueue()
        self._numbers = itertools.count()
        self._thread = threading.Thread(target=self._answer_all, name=handler, daemon=True)
        self._thread.start()

    async def ask(self, request: Request, is_urgent: bool = True) -> Any:
        """The answer to a request; a PatchgenError that it ended with, or a WorkerDied. One that is cancelled before
        its turn is never asked."""
        future: Future[Any] = Future()
        self._questions.put(_Question(0 if is_urgent else 1, next(self._numbers), request, future))
        return await asyncio.wrap_future(future)

    def _answer_all(self) -> None:
        is_rested = True
        while True:
            try:
                question = self._questions.get(timeout=None if is_rested else _IDLE)
            except Empty:
                is_rested = True
                self._tidy(REST)
                continue
            is_rested = self._is_brief
            if question.rank == _END:
                return
            if not question.future.set_running_or_notify_cancel():
                continue
            try:
                question.future.set_result(self._ask(question.request))
            except Exception as error:
                question.future.set_exception(error)
            if self._questions.empty() and not self._is_brief:
                self._tidy(TIDY)

    def _tidy(self, kind: str) -> None:
        with contextlib.suppress(PatchgenError, WorkerDied, OSError):  # the next question starts another process
            self._ask(Request(kind, Path()))

    def _ask(self, request: Request) -> Any:
        try:
            answer, is_large = self._worker.ask(request)
        finally:
            if self._is_brief:
                self._worker.close()
        if is_large:
            self._worker.close()
        return answer

    def close(self) -> None:
        """End the process; what waits is not asked."""
        while not self._questions.empty():
            self._questions.get().future.cancel()
        self._questions.put(_Question(_END, next(self._numbers), Request("end", Path()), Future()))
        self._worker.interrupt()
        self._thread.join()
        with contextlib.suppress(OSError):
            self._worker.close()


def describe_death(error: WorkerDied) -> str:
    """What to say of a process that died."""
    lines = error.output.strip().splitlines()
    return f"the config could not be analysed: {error.how}" + (f" ({lines[-1]})" if lines else "")
