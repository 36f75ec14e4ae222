"""Where the replay's pieces are done: in processes of this machine, or on the nodes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from benchmarks.replay_requests import HANDLER, Request
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.workers.cluster import Cluster
from patchgen_core.workers.processes import UnitExecutor, make_workers
from patchgen_core.workers.units import Task
from patchgen_core.workers.worker import WorkerDied
from tools.releases import ROOT

PACKAGES = ("torch", "transformers", "libcst", "ruff")
"""What nodes have to have in the versions that are installed here."""


class Processes:
    """Processes that answer requests of walks, for several walks at a time.

    A node gets this repository, and by their wheels the releases that a request is about: it downloads nothing.
    """

    def __init__(self, executor: UnitExecutor, cluster: Cluster | None = None) -> None:
        self._executor, self._cluster = executor, cluster

    def ask(self, request: Request) -> tuple[dict[str, Any], bytes]:
        """The answer to a request; waits for it.

        Raises:
            PatchgenError: the request raised it, or two processes have ended over it.
        """
        for wheel in request.wheels if self._cluster is not None else ():
            self._cluster.send(wheel.parent, [wheel.name])
        ((answer,),) = self._executor.submit([[Task(request)]])
        try:
            values, project = answer.result()
        except (WorkerDied, CancelledError) as error:
            output = error.output if isinstance(error, WorkerDied) else ""
            message = f"{request.walk.name} {request.version}: two processes ended over its {request.what}: {error}"
            raise PatchgenError.from_problems([Problem(message, excerpt=output)]) from None
        return values, project


@contextmanager
def start_processes(jobs: int, address: str = "") -> Iterator[Processes]:
    """So many processes of this machine, or one for each processor of the Ray cluster at an address.

    Raises:
        PatchgenError: there is no such cluster.
    """
    with ExitStack() as stack:
        cluster = stack.enter_context(closing(Cluster(address, ROOT, PACKAGES))) if address else None
        size = jobs if cluster is None else max(cluster.count("CPU"), 1)
        workers = (
            make_workers(HANDLER, size)
            if cluster is None
            else [cluster.process(HANDLER, {"CPU": 1.0}) for _ in range(size)]
        )
        yield Processes(stack.enter_context(closing(UnitExecutor(workers, size))), cluster)
