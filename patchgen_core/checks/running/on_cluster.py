"""Items of checks that run on a Ray cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from patchgen_core.checks.kept.asking import ItemPlace
from patchgen_core.checks.running.ahead import HANDLER, ItemsAhead
from patchgen_core.checks.running.processes import divide_items
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import ACCELERATORS
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.workers.cluster import Cluster
from patchgen_core.workers.processes import UnitExecutor
from patchgen_core.workers.units import Unit

_PROCESSOR = "CPU"
_RANKS_ON_A_PROCESSOR = 4
"""The scheduler of the cluster places processes by the one processor that each mostly needs."""
_UPSTREAM = "transformers"
RELEASE = "PATCHGEN_RELEASE"
"""The environment variable that names another package which a run has a release of on its search path."""
_PACKAGES = ("torch", "transformers", "triton", "liger-kernel", "safetensors", "libcst", "ruff")


def run_on_cluster(session: Session, items: Iterable[ItemPlace], address: str, jobs: int | None) -> None:
    """Have the items that can run ahead do so on a cluster, in so many processes or in one for each of its processors,
    and for each of its accelerators that items need.

    Raises:
        PatchgenError: there is no such cluster, or it lacks the device that the run asks for.
    """
    items = [item for item in items if item[0].runs_ahead]
    if not items:
        return
    cluster = Cluster(address, find_root(session, items), _PACKAGES, _find_releases())
    try:
        sizes = {name: cluster.count(name) for name in (_PROCESSOR, *ACCELERATORS.values())}
        devices = {item: choose_device(session.settings.device, item, sizes) for item in items}
        wanted = {ACCELERATORS.get(device, _PROCESSOR) for device in devices.values()}
        if (absent := next((name for name in sorted(wanted) if sizes[name] < 1), "")) != "":
            raise PatchgenError(f"the Ray cluster '{address}' has no {absent}, which the device asks for")
        units: list[list[ItemPlace]] = []
        for name in sorted(wanted):
            alike = [item for item in items if ACCELERATORS.get(devices[item], _PROCESSOR) == name]
            units += divide_items(alike, jobs or sizes[name])
        places = {item: place for place, item in enumerate(items)}
        units.sort(key=lambda unit: places[unit[0]])
        executor = _ClusterExecutor(cluster, {name: jobs or sizes[name] for name in wanted})
        session.items_ahead = ItemsAhead(session, executor, devices)
        session.items_ahead.submit(units)
    except BaseException:
        cluster.close()
        raise


def choose_device(device: str, item: ItemPlace, sizes: Mapping[str, int]) -> str:
    """The device that an item runs on: the one of the run, for a check of which that matters; where that is left open,
    the first that the kernels of the item are made for and the cluster has."""
    check, path, name = item
    if not check.on_device or device == "cpu":
        return "cpu"
    if device in ACCELERATORS:
        return device
    try:
        kinds = check.device_types(path, name)
    except PatchgenError:  # the check meets it as well
        return "cpu"
    return next((kind for kind, counted in ACCELERATORS.items() if kind in kinds and sizes[counted]), "cpu")


class _ClusterExecutor:
    """Processes of a cluster, of which some have an accelerator, and the connection to it.

    A process with an accelerator occupies no processor: those that have none would leave it no room on its node.
    """

    def __init__(self, cluster: Cluster, sizes: Mapping[str, int]) -> None:
        self._cluster = cluster
        self._executors = {name: self._make(name, size) for name, size in sizes.items()}
        self._owners: dict[Future[Any], UnitExecutor] = {}

    def _make(self, name: str, size: int) -> UnitExecutor:
        resources = {_PROCESSOR: 1.0} if name == _PROCESSOR else {_PROCESSOR: 0.0, name: 1.0}
        processes = [self._cluster.process(HANDLER, resources) for _ in range(size)]
        return UnitExecutor(processes, self._cluster.count(_PROCESSOR) * _RANKS_ON_A_PROCESSOR, divides=True)

    def submit(self, units: Sequence[Unit], subjects: Sequence[str] = ()) -> list[list[Future[Any]]]:
        """Have units done by processes that have what their tasks need."""
        answers: list[list[Future[Any]]] = [[] for _ in units]
        for name, executor in self._executors.items():
            places = [place for place, unit in enumerate(units) if (unit[0].accelerator or _PROCESSOR) == name]
            alike = executor.submit([units[place] for place in places], [subjects[place] for place in places])
            for place, of_unit in zip(places, alike, strict=True):
                answers[place] = of_unit
                self._owners.update(dict.fromkeys(of_unit, executor))
        return answers

    def interrupt(self, answer: Future[Any]) -> None:
        """End what is being done for an answer that nobody waits for any more."""
        self._owners[answer].interrupt(answer)

    def close(self) -> None:
        """End what runs, and the connection."""
        for executor in self._executors.values():
            executor.close()
        self._cluster.close()


def _find_releases() -> dict[Path, tuple[str, ...]]:
    """The folders that upstream's packages are imported from, if they are none of what is installed: a release beside
    that, or a checkout; with the names of what belongs to it there."""
    releases: dict[Path, tuple[str, ...]] = {}
    for package in dict.fromkeys(filter(None, (_UPSTREAM, os.environ.get(RELEASE)))):
        folders = (Path(os.path.abspath(place)) for place in sys.path)
        folder = next((folder for folder in folders if (folder / package / "__init__.py").is_file()), None)
        if folder is not None and folder.name not in ("site-packages", "dist-packages"):
            releases[folder] = (*releases.get(folder, ()), *names_of_release(folder, package))
    return releases


def names_of_release(folder: Path, package: str) -> tuple[str, ...]:
    """What belongs to a release in a folder: its package, and its metadata."""
    return (package, *sorted(path.name for path in folder.glob(f"{package}-*.dist-info")))


def find_root(session: Session, items: Iterable[ItemPlace]) -> Path:
    """The folder that nodes need a copy of: the one above everything that the projects of the items have."""
    paths = list(dict.fromkeys(path for _, path, _ in items))
    projects = dict.fromkeys([*filter(None, [session.home]), *_projects(session, paths)])
    return find_common_root(projects, paths)


def find_common_root(projects: Iterable[Project], paths: Iterable[Path]) -> Path:
    """The folder above all that projects have, and some files; a PatchgenError where there is none."""
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
