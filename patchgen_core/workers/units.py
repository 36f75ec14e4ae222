"""What is to be done by processes that share it: tasks, and units of tasks that one of them does."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Task:
    """A request for somebody else to answer.

    Attributes:
        processors: how many it keeps busy meanwhile.
        accelerator: what its process has to have beside a processor, as a cluster calls it: ``GPU``, ``NPU``.
    """

    request: object
    processors: int = 1
    accelerator: str = ""


Unit = Sequence[Task]
"""Tasks that one process does, one after the other, because they share what it learns."""


class UnitWorker(Protocol):
    """A process, here or on another machine, and the one that takes its place after it has died."""

    def start(self) -> None:
        """Wait until the process is there, however long another one occupies its place."""

    def is_ready(self) -> bool:
        """Whether it is there."""

    def ask(self, request: object) -> Any:
        """The answer to a request; a :class:`~patchgen_core.workers.worker.WorkerDied` where the process ended."""

    def interrupt(self) -> None:
        """End what the process does for another thread."""

    def close(self) -> None:
        """End the process."""


class Executor(Protocol):
    """Where units are done: in processes of this machine, or on a cluster."""

    def submit(self, units: Sequence[Unit], subjects: Sequence[str] = ()) -> list[list[Future[Any]]]:
        """Have units done, begun about in their order; the answers to come, a list for each unit. What each is about
        may be told: a process then rather takes units about what it knows.

        An answer that does not come is a :class:`~patchgen_core.workers.worker.WorkerDied`, and a PatchgenError that a
        request raised is that of its answer.
        """

    def interrupt(self, answer: Future[Any]) -> None:
        """End what is being done for an answer that nobody waits for any more; the rest of its unit is done."""

    def close(self) -> None:
        """End everything."""
