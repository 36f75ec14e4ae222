"""Trials shared out to processes, each made once."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from types import TracebackType

from patchgen_core.build.results import Progress
from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.matrix.trials import Base, Bench, Trial
from patchgen_core.upgrade.selecting import Key, Selection, key_of, unpinned
from patchgen_core.upstream.releases import Release
from patchgen_core.workers.pool import AT_ONCE, cpus, pack, unpack
from patchgen_core.workers.processes import Server

WORTH_IT = 24
"""Fewer trials than that are made in this process."""

_MOST = 4
_TIME_LIMIT = 3600.0
_SCRIPT = Path(__file__).with_name("trial_server.py")

Task = tuple[Release, tuple[Key, ...]]


class Crew:
    """Tries the configs of a selection with releases; a context manager that ends the processes that it started.

    Args:
        selection: the configs.
        bases: what each is based on.
    """

    def __init__(self, selection: Selection, bases: Mapping[Key, Base]) -> None:
        self.selection, self.bases = selection, bases
        keys = [key_of(loaded) for loaded in selection.configs]
        self._chunks = [tuple(keys[first : first + AT_ONCE]) for first in range(0, len(keys), AT_ONCE)]
        self._known: dict[tuple[Path, Key], Trial] = {}
        self._stack = ExitStack()
        self._pool: ThreadPoolExecutor | None = None
        self._idle: SimpleQueue[Server] = SimpleQueue()
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
        count = min(cpus(), _MOST)
        if self._pool is None and (count == 1 or len(tasks) == 1 or total < WORTH_IT):
            return map(self._here, tasks)
        if self._pool is None:
            self._start(count)
        assert self._pool is not None
        return self._pool.map(self._apart, tasks)

    def _start(self, count: int) -> None:
        pool = self._stack.enter_context(ThreadPoolExecutor(count))
        for _ in range(count):
            self._idle.put(self._stack.enter_context(Server(_SCRIPT, _TIME_LIMIT)))
        self._stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        self._pool = pool

    def _apart(self, task: Task) -> dict[Key, Trial]:
        release, keys = task
        chunk = next(chunk for chunk in self._chunks if keys[0] in chunk)
        bases = {key: self.bases[key] for key in chunk}
        server = self._idle.get()
        try:
            answer = server.ask(
                {
                    "bench": pack(pickle.dumps((self.selection.project, bases))),
                    "asked": pack(pickle.dumps((release, keys))),
                    "search": list(map(os.path.abspath, sys.path)),
                }
            )
        finally:
            self._idle.put(server)
        if "trials" not in answer:
            return self._here(task)
        trials: dict[Key, Trial] = unpack(answer["trials"])
        return trials

    def _here(self, task: Task) -> dict[Key, Trial]:
        with self._alone:
            if self._bench is None:
                configs = {key_of(loaded): loaded for loaded in self.selection.configs}
                self._bench = Bench(self.selection.project, configs, self.bases, self.selection.sources)
            return self._bench.trials(*task)


def make_bench(project: Project, bases: Mapping[Key, Base]) -> Bench:
    """A bench for some configs, which are loaded here.

    Raises:
        PatchgenError: one of them does not load.
    """
    sources = SourceCache()
    loader = Loader(project, sources)
    configs: dict[Key, LoadedConfig] = {}
    for path in dict.fromkeys(path for path, _ in bases):
        found = {key_of(loaded): unpinned(loaded) for loaded in loader.load(Path(path))}
        configs |= {key: loaded for key, loaded in found.items() if key in bases}
    return Bench(project, configs, bases, sources)
