"""How many processes of this machine run checks, and which items each of them runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from patchgen_core.checks.fork_server import begin_imports
from patchgen_core.checks.kept.asking import ItemPlace
from patchgen_core.checks.model_process.check import model_process
from patchgen_core.checks.running.ahead import HANDLER, ItemsAhead
from patchgen_core.checks.session import Session
from patchgen_core.checks.shards import usual_seconds
from patchgen_core.errors import PatchgenError
from patchgen_core.workers.machine import available_memory, count_processors, has_accelerator
from patchgen_core.workers.processes import UnitExecutor, make_workers

_MEMORY_OF_PROCESS = 2 * 2**30
"""Bytes for a process that runs models, with the ranks that it starts."""
_WORTH_A_PROCESS = 15.0
"""Seconds of work for which another process is started, unless somebody asks for it: it imports and generates anew."""
_SHARED = 60.0
"""Seconds of work on one model that stay in one process, unless another one would have nothing to do meanwhile."""
_PARTS = 4
"""How many units a process does at least, so that none is at work for long when the others are done."""


def choose_jobs(device: str) -> int:
    """As many processes as there are processors, and at most what memory allows; one where models may run on a GPU,
    which has memory of its own."""
    if device != "cpu" and has_accelerator():
        return 1
    memory = available_memory()
    allowed = memory // _MEMORY_OF_PROCESS if memory is not None else 1
    return max(1, min(count_processors(), allowed))


def run_in_processes(session: Session, items: Iterable[ItemPlace], jobs: int | None) -> bool:
    """Have the items that can run ahead do so, in so many processes, or in as many as this machine has room for;
    whether that was done. One process, or one thing to do, is left to this one."""
    items = [item for item in items if item[0].runs_ahead]
    if jobs is None:
        worth = int(_length(items) / _WORTH_A_PROCESS)
        jobs = min(worth, choose_jobs(session.settings.device)) if worth > 1 else 1
    if jobs < 2:
        return False
    units = divide_items(items, jobs)
    size = min(jobs, len(units))
    if size < 2:
        return False
    for path in dict.fromkeys(path.parent for _, path, _ in items):
        try:
            model_process(session, session.project(path / "_")).close()  # which has listed kernels, or run a set-up
        except PatchgenError:
            continue
    begin_imports(session, (check for check, _, _ in items))
    executor = UnitExecutor(make_workers(HANDLER, size), count_processors(), divides=True)
    session.items_ahead = ItemsAhead(session, executor)
    session.items_ahead.submit(units)
    return True


def divide_items(items: Sequence[ItemPlace], jobs: int) -> list[list[ItemPlace]]:
    """Items that should run in one process because they share what upstream's model computes: those of a folder, of a
    config where that is too long to wait for, and else each by itself. In the order of their first items, and no item
    far from its place: somebody waits for them in their order."""
    length = _length(items)
    fair = max(_WORTH_A_PROCESS, min(_SHARED, length / jobs), length / (jobs * _PARTS))
    units: list[list[ItemPlace]] = []
    for near in _cut(items, jobs * fair):
        for folder in _group(near, lambda item: item[1].parent):
            units += [folder] if _length(folder) <= fair else list(_split(folder, fair))
    return units


def _cut(items: Sequence[ItemPlace], seconds: float) -> Iterator[list[ItemPlace]]:
    """Items in their order, in parts that take about so long. A folder's that follow each other stay together."""
    part: list[ItemPlace] = []
    length = 0.0
    for item in items:
        if length >= seconds and part[-1][1].parent != item[1].parent:
            yield part
            part, length = [], 0.0
        part.append(item)
        length += usual_seconds(item[2])
    if part:
        yield part


def _split(items: Sequence[ItemPlace], fair: float) -> Iterator[list[ItemPlace]]:
    for config in _group(items, lambda item: item[1]):
        if _length(config) <= fair:
            yield config
        else:
            yield from ([item] for item in config)


def _group(items: Sequence[ItemPlace], key: Callable[[ItemPlace], Path]) -> list[list[ItemPlace]]:
    groups: dict[Path, list[ItemPlace]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def _length(items: Iterable[ItemPlace]) -> float:
    return sum(usual_seconds(name) for _, _, name in items)
