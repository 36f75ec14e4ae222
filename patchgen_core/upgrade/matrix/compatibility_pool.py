"""Configs checked with releases in several workers, each pair once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Lock

from patchgen_core.build.results import Progress
from patchgen_core.upgrade.matrix.compatibility import (
    CheckerRequest,
    CheckRequest,
    Compatibility,
    CompatibilityChecker,
    ConfigBase,
)
from patchgen_core.upgrade.package_configs import ConfigKey, PackageConfigs, config_key
from patchgen_core.upstream.releases import Release
from patchgen_core.workers.pool import WorkerPool, count_cpus

WORTH_IT = 24
"""Fewer pairs of a config and a release than that are checked in this process."""

_HANDLER = "patchgen_core.upgrade.matrix.compatibility:check_configs"
_CHUNK_SIZE = 32
_MOST_WORKERS = 4

Task = tuple[Release, tuple[ConfigKey, ...]]


class CompatibilityPool:
    """Checks the configs of a selection with releases; the workers that it starts end with the stack."""

    def __init__(self, selection: PackageConfigs, bases: Mapping[ConfigKey, ConfigBase], stack: ExitStack) -> None:
        self.selection, self.bases, self._stack = selection, bases, stack
        keys = [config_key(loaded) for loaded in selection.configs]
        self._chunks = [tuple(keys[first : first + _CHUNK_SIZE]) for first in range(0, len(keys), _CHUNK_SIZE)]
        self._results: dict[tuple[Path, ConfigKey], Compatibility] = {}
        self._pool: WorkerPool | None = None
        self._checker: CompatibilityChecker | None = None
        self._alone = Lock()

    def result(self, release: Release, key: ConfigKey) -> Compatibility:
        """What came of a config and a release that were checked."""
        return self._results[release.folder, key]

    def check(self, wanted: Iterable[tuple[Release, Collection[ConfigKey]]], progress: Progress | None = None) -> None:
        """Check configs with releases, unless that was done; raises as :meth:`CompatibilityChecker.check` does."""
        tasks = list(self._tasks(wanted))
        total, done = sum(len(keys) for _, keys in tasks), 0
        for (release, keys), results in zip(tasks, self._checked(tasks, total)):
            self._results |= {(release.folder, key): result for key, result in results.items()}
            done += len(keys)
            if progress is not None:
                progress(done, total)

    def _tasks(self, wanted: Iterable[tuple[Release, Collection[ConfigKey]]]) -> Iterator[Task]:
        """What is to be done, one chunk of the configs after the other: a process keeps what it read for one."""
        pairs = [(release, set(keys)) for release, keys in wanted]
        for chunk in self._chunks:
            for release, keys in pairs:
                lacking = tuple(k for k in chunk if k in keys and (release.folder, k) not in self._results)
                if lacking:
                    yield release, lacking

    def _checked(self, tasks: Sequence[Task], total: int) -> Iterator[dict[ConfigKey, Compatibility]]:
        size = min(count_cpus(), _MOST_WORKERS)
        if self._pool is None and (size == 1 or len(tasks) == 1 or total < WORTH_IT):
            return map(self._here, tasks)
        if self._pool is None:
            self._pool = self._stack.enter_context(WorkerPool(_HANDLER, size))
        pool = self._pool
        return pool.map(lambda task: pool.ask(self._request(task), lambda: self._here(task)), tasks)

    def _request(self, task: Task) -> CheckRequest:
        release, keys = task
        chunk = next(chunk for chunk in self._chunks if keys[0] in chunk)
        bases = {key: self.bases[key] for key in chunk}
        return CheckRequest(CheckerRequest(self.selection.project, bases), release, keys)

    def _here(self, task: Task) -> dict[ConfigKey, Compatibility]:
        with self._alone:
            if self._checker is None:
                selection = self.selection
                configs = {config_key(loaded): loaded for loaded in selection.configs}
                self._checker = CompatibilityChecker(selection.project, configs, self.bases, selection.sources)
            return self._checker.check(*task)
