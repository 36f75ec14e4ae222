"""A process beside the server that loads and generates configs, asked by one thread."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from patchgen_core.workers.worker import Worker, WorkerDied
from patchgen_lsp.request import Request

HANDLER = "patchgen_lsp.analysis.answering:answer"


class Analyst:
    """Answers requests one after the other, off the event loop.

    A config that never ends, or that ends its process, costs its own answer: the next request gets a new process.
    """

    def __init__(self, time_limit: float) -> None:
        self._worker = Worker(HANDLER, time_limit)
        self._thread = ThreadPoolExecutor(1, "patchgen-analyst")

    async def ask(self, request: Request) -> Any:
        """The answer to a request; a PatchgenError that it ended with, or a WorkerDied."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, request)

    def _ask(self, request: Request) -> Any:
        answer, is_large = self._worker.ask(request)
        if is_large:
            self._worker.close()
        return answer

    def close(self) -> None:
        """End the process."""
        self._worker.interrupt()
        self._thread.shutdown(wait=True, cancel_futures=True)
        with contextlib.suppress(OSError):
            self._worker.close()


def describe_death(error: WorkerDied) -> str:
    """What to say of a process that died."""
    lines = error.output.strip().splitlines()
    return f"the config could not be analysed: {error.how}" + (f" ({lines[-1]})" if lines else "")
