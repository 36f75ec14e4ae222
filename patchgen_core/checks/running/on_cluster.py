"""Items of checks that run on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from patchgen_core.checks.running.ahead import HANDLER, ItemPlace, ItemsAhead
from patchgen_core.checks.running.processes import divide_items
from patchgen_core.checks.session import Session
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.workers.cluster import Cluster
from patchgen_core.workers.processes import UnitExecutor

_PACKAGES = ("torch", "transformers", "triton", "liger-kernel", "safetensors", "libcst", "ruff")


def run_on_cluster(session: Session, items: Iterable[ItemPlace], address: str, jobs: int | None) -> None:
    """Have the items that can run ahead do so on a cluster, in so many processes or in one for each of its processors,
    each with a GPU where the run asks for one.

    Raises:
        PatchgenError: there is no such cluster, or it has no GPU.
    """
    items = [item for item in items if item[0].runs_ahead]
    if not items:
        return
    resources = {"CPU": 1.0, "GPU": 1.0} if session.settings.device == "cuda" else {"CPU": 1.0}
    cluster = Cluster(address, find_root(session, items), _PACKAGES)
    try:
        sizes = {name: cluster.count(name) for name in resources}
        if (absent := next((name for name, size in sizes.items() if size < 1), "")) != "":
            raise PatchgenError(f"the Ray cluster '{address}' has no {absent}, which the device asks for")
        units = divide_items(items, jobs or min(sizes.values()))
        size = min(jobs or min(sizes.values()), len(units))
        session.items_ahead = ItemsAhead(session, _ClusterExecutor(cluster, size, resources), is_elsewhere=True)
        session.items_ahead.submit(units)
    except BaseException:
        cluster.close()
        raise


class _ClusterExecutor(UnitExecutor):
    """Processes of a cluster, and the connection to it."""

    def __init__(self, cluster: Cluster, size: int, resources: dict[str, float]) -> None:
        self._cluster = cluster
        processes = [cluster.process(HANDLER, resources) for _ in range(size)]
        super().__init__(processes, cluster.count("CPU") * _RANKS_ON_A_PROCESSOR)

    def close(self) -> None:
        """End what runs, and the connection."""
        super().close()
        self._cluster.close()


_RANKS_ON_A_PROCESSOR = 4
"""The scheduler of the cluster places processes by the one processor that each mostly needs."""


def find_root(session: Session, items: Iterable[ItemPlace]) -> Path:
    """The folder that nodes need a copy of: the one above everything that the projects of the items have."""
    paths = list(dict.fromkeys(path for _, path, _ in items))
    projects = dict.fromkeys([*filter(None, [session.home]), *_projects(session, paths)])
    folders = [path.parent for path in paths]
    for project in projects:
        toys = project.parity.toy_root
        folders += [project.base, project.search_root, *project.import_roots, *([toys] if toys is not None else [])]
    root = Path(os.path.commonpath([os.path.abspath(folder) for folder in folders]))
    if root == Path(root.anchor):
        raise PatchgenError("the configs of this run have no folder in common that nodes of a cluster could have")
    return root


def _projects(session: Session, paths: Iterable[Path]) -> Iterable[Project]:
    for path in paths:
        try:
            yield session.project(path)
        except PatchgenError:  # the check says so
            continue
