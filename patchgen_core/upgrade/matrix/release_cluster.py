"""Requests about releases of upstream that the nodes of a Ray cluster answer, which get the releases' sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

from patchgen_core.checks.running.on_cluster import find_common_root, names_of_release
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.project.project import Project
from patchgen_core.upstream.releases import Release
from patchgen_core.workers.cluster import Cluster
from patchgen_core.workers.processes import UnitExecutor
from patchgen_core.workers.units import Task
from patchgen_core.workers.worker import WorkerDied

_PACKAGES = ("libcst", "ruff")
"""What nodes have to have in the versions that are installed here."""


class ReleaseCluster:
    """Processes of a cluster, one for each of its processors, with a copy of a project.

    Args:
        paths: files that the nodes have as well.
        handler: ``package.module:function`` of what answers there.

    Raises:
        PatchgenError: there is no such cluster, or the project cannot be sent.
    """

    def __init__(self, address: str, project: Project, paths: Iterable[Path], handler: str) -> None:
        self._cluster = Cluster(address, find_common_root([project], paths), _PACKAGES)
        self._handler = handler
        self._executor: UnitExecutor | None = None

    def map(self, requests: Sequence[object], releases: Sequence[Iterable[Release]]) -> Iterator[Any]:
        """The answers to requests, in their order, each of which is about releases.

        Raises:
            PatchgenError: a request raised it, or two processes have ended over one.
        """
        for release in (release for of_request in releases for release in of_request):
            self._cluster.send(release.folder, names_of_release(release.folder, release.package))
        if self._executor is None:
            size = max(self._cluster.count("CPU"), 1)
            processes = [self._cluster.process(self._handler, {"CPU": 1.0}) for _ in range(size)]
            self._executor = UnitExecutor(processes, size)
        answers = self._executor.submit([[Task(request)] for request in requests])
        return (_wait(answer) for (answer,) in answers)

    def close(self) -> None:
        """End what runs, and the connection."""
        if self._executor is not None:
            self._executor.close()
        self._cluster.close()


def _wait(answer: Future[Any]) -> Any:
    try:
        return answer.result()
    except (WorkerDied, CancelledError) as error:
        output = error.output if isinstance(error, WorkerDied) else ""
        message = f"configs cannot be tried with a release: two processes of the cluster ended over it: {error}"
        raise PatchgenError.from_problems([Problem(message, excerpt=output)]) from None
