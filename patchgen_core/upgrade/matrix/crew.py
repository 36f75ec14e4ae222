"""Trials shared out to workers, each made once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from types import TracebackType

from patchgen_core.build.results import Progress
from patchgen_core.upgrade.matrix.benches import BenchRequest, TrialRequest
from patchgen_core.upgrade.matrix.trials import Base, Bench, Trial
from patchgen_core.upgrade.selecting import Key, Selection, key_of
from patchgen_core.upstream.releases import Release
from patchgen_core.workers.pool import WorkerPool, count_cpus

WORTH_IT = 24
"""Fewer trials than that are made in this process."""

_HANDLER = "patchgen_core.upgrade.matrix.benches:try_configs"
_CHUNK_SIZE = 32
_MOST_WORKERS = 4

Task = tuple[Release, tuple[Key, ...]]


class Crew:
    """Tries the configs of a selection with releases; a context manager that ends the workers that it started.

    Args:
        selection: the configs.
        bases: what each is based on.
    """

    def __init__(self, selection: Selection, bases: Mapping[Key, Base]) -> None:
        self.selection, self.bases = selection, bases
        keys = [key_of(loaded) for loaded in selection.configs]
        self._chunks = [tuple(keys[first : first + _CHUNK_SIZE]) for first in range(0, len(keys), _CHUNK_SIZE)]
        self._known: dict[tuple[Path, Key], Trial] = {}
        self._stack = ExitStack()
        self._pool: WorkerPool | None = None
        self._bench: Bench | None = None
        self._alone = Lock()

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def trial(self, release: Release, key: Key) -> Trial:
        """A trial that has been made."""
        return self._known[release.folder, key]

    def make(self, wanted: Iterable[tuple[Release, Collection[Key]]], progress: Progress | None = None) -> None:
        """Make trials that have not been made yet.

        Args:
            wanted: releases, each with the configs to try with it.
            progress: told how many of how many trials are made.

        Raises:
            PatchgenError: as for :meth:`Bench.trials`.
        """
        tasks = list(self._tasks(wanted))
        total, done = sum(len(keys) for _, keys in tasks), 0
        for (release, keys), found in zip(tasks, self._made(tasks, total)):
            self._known |= {(release.folder, key): trial for key, trial in found.items()}
            done += len(keys)
            if progress is not None:
                progress(done, total)

    def _tasks(self, wanted: Iterable[tuple[Release, Collection[Key]]]) -> Iterator[Task]:
        """What is to be done, one chunk of the configs after the other: a process keeps what it read for one."""
        pairs = [(release, set(keys)) for release, keys in wanted]
        for chunk in self._chunks:
            for release, keys in pairs:
                lacking = tuple(k for k in chunk if k in keys and (release.folder, k) not in self._known)
                if lacking:
                    yield release, lacking

    def _made(self, tasks: Sequence[Task], total: int) -> Iterator[dict[Key, Trial]]:
        size = min(count_cpus(), _MOST_WORKERS)
        if self._pool is None and (size == 1 or len(tasks) == 1 or total < WORTH_IT):
            return map(self._here, tasks)
        if self._pool is None:
            self._pool = self._stack.enter_context(
                WorkerPool("patchgen_core.upgrade.matrix.benches:try_configs", size)
            )
        pool = self._pool
        return pool.map(lambda task: pool.ask(self._request(task), lambda: self._here(task)), tasks)

    def _request(self, task: Task) -> TrialRequest:
        release, keys = task
        chunk = next(chunk for chunk in self._chunks if keys[0] in chunk)
        bases = {key: self.bases[key] for key in chunk}
        return TrialRequest(BenchRequest(self.selection.project, bases), release, keys)

    def _here(self, task: Task) -> dict[Key, Trial]:
        with self._alone:
            if self._bench is None:
                configs = {key_of(loaded): loaded for loaded in self.selection.configs}
                self._bench = Bench(self.selection.project, configs, self.bases, self.selection.sources)
            return self._bench.trials(*task)
