"""Configs with releases of upstream: what generates, what breaks a rule, what changed below each patch."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock

from patchgen_core.build.results import Progress
from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.matrix.release_cluster import ReleaseCluster
from patchgen_core.upgrade.package_configs import ConfigKey, PackageConfigs, config_key, patches_of, unpinned
from patchgen_core.upgrade.release_module import ReleaseModule, recorded_module
from patchgen_core.upgrade.release_project import Generation, ReleaseProject
from patchgen_core.upgrade.results import Finding
from patchgen_core.upgrade.verdicts.comparing import compare_target
from patchgen_core.upgrade.verdicts.module_view import view_of
from patchgen_core.upgrade.verdicts.replacements import resolve_patch
from patchgen_core.upstream.releases import Release
from patchgen_core.workers.collector import without_collector
from patchgen_core.workers.held_back import hold_stderr_back
from patchgen_core.workers.pool import WorkerPool
from patchgen_core.workers.processors import count_cpus

WORTH_IT = 24
"""Fewer pairs of a config and a release than that are checked in this process."""

_HANDLER = "patchgen_core.upgrade.matrix.compatibility:check_configs"
_CHUNK_SIZE = 32
_MOST_WORKERS = 4
_MANY = 1_500_000
"""How many objects may be left over before cycles among them are looked for; some 200 MiB of them."""

Task = tuple[Release, tuple[ConfigKey, ...]]


@dataclass(frozen=True)
class ConfigBase:
    """The version that a config's generated file is based on, empty if unknown, and its release, if it can be had."""

    version: str = ""
    release: Release | None = None


@dataclass(frozen=True)
class Compatibility:
    """What a config is with one release.

    Attributes:
        generation: None when the release lacks upstream's module.
        targets: what upstream changed in each patch's target, from the config's base; None where that is not known.
    """

    generation: Generation | None
    targets: tuple[Finding | None, ...] = ()


@dataclass(frozen=True)
class CompatibilityChecker:
    """Checks configs, none pinned to a version, with releases. What a release was read into is dropped afterwards."""

    project: Project
    configs: Mapping[ConfigKey, LoadedConfig]
    bases: Mapping[ConfigKey, ConfigBase]
    sources: SourceCache = field(repr=False)

    @without_collector()
    def prepare(self) -> None:
        """Read what the configs are based on, which otherwise happens when it is needed first."""
        assert len(self._base_modules) == len(self.configs)

    @without_collector()
    def check(self, release: Release, keys: Iterable[ConfigKey]) -> dict[ConfigKey, Compatibility]:
        """What some configs become with a release.

        Raises:
            PatchgenError: ruff cannot run, or the project's settings name a rule or module that is not there.
        """
        project = ReleaseProject(self.project, release, self.sources.fork(), self.sources)
        config_keys = list(keys)
        present = {key: self.configs[key] for key in config_keys if project.module(self.configs[key]) is not None}
        generations = project.generate(present)
        results = dict.fromkeys(config_keys, Compatibility(None))
        for key, generation in generations.items():
            results[key] = Compatibility(generation, self._targets(key, project))
        project.sources.clear()
        view_of.cache_clear()
        if gc.get_count()[0] > _MANY:
            gc.collect()
        return results

    def _targets(self, key: ConfigKey, project: ReleaseProject) -> tuple[Finding | None, ...]:
        loaded = self.configs[key]
        patches = patches_of(loaded)
        old, new = self._base_modules[key], project.release_module(loaded)
        if old is None or new is None:
            return (None,) * len(patches)
        planned = [resolve_patch(old, patch, loaded, self.sources) if patch.is_edit else None for patch in patches]
        return tuple(compare_target(old, new, patch, plan).finding for patch, plan in zip(patches, planned))

    @cached_property
    def _base_modules(self) -> dict[ConfigKey, ReleaseModule | None]:
        """Upstream's modules as the configs are based on them."""
        projects: dict[Path, ReleaseProject] = {}
        return {key: self._base_module(loaded, self.bases[key], projects) for key, loaded in self.configs.items()}

    def _base_module(
        self, loaded: LoadedConfig, base: ConfigBase, projects: dict[Path, ReleaseProject]
    ) -> ReleaseModule | None:
        release = base.release
        if release is None:
            return recorded_module(self.project, loaded, base.version)
        if release.folder not in projects:
            projects[release.folder] = ReleaseProject(self.project, release, SourceCache(), self.sources)
        return projects[release.folder].release_module(loaded)


# --- in a worker -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckerRequest:
    """A checker that is wanted."""

    project: Project
    bases: Mapping[ConfigKey, ConfigBase]


@dataclass(frozen=True)
class CheckRequest:
    """Configs of a checker that are to be checked with a release."""

    checker: CheckerRequest
    release: Release
    keys: tuple[ConfigKey, ...]


_checkers: list[tuple[CheckerRequest, CompatibilityChecker]] = []  # that of the last request


def check_configs(request: CheckRequest) -> dict[ConfigKey, Compatibility]:
    """What configs become with a release; raises as :meth:`CompatibilityChecker.check` does, or where none loads."""
    gc.disable()
    with hold_stderr_back():  # the process that asks has loaded the configs, too
        return _find_checker(request.checker).check(request.release, request.keys)


def _find_checker(request: CheckerRequest) -> CompatibilityChecker:
    """The checker of the last request, if it is the same."""
    if not _checkers or _checkers[0][0] != request:
        _checkers.clear()
        gc.unfreeze()
        gc.collect()
        checker = _make_checker(request)
        checker.prepare()
        _checkers.append((request, checker))
        gc.freeze()  # it stays: nothing of it is looked at when cycles are
    return _checkers[0][1]


def _make_checker(request: CheckerRequest) -> CompatibilityChecker:
    """A checker whose configs are loaded here."""
    project, bases = request.project, request.bases
    sources = SourceCache()
    loader = Loader(project, sources)
    configs: dict[ConfigKey, LoadedConfig] = {}
    for path in dict.fromkeys(path for path, _ in bases):
        loaded = {config_key(config): unpinned(config) for config in loader.load(Path(path))}
        configs |= {key: config for key, config in loaded.items() if key in bases}
    return CompatibilityChecker(project, configs, bases, sources)


# --- in several workers ------------------------------------------------------------------------------


class CompatibilityPool:
    """Checks the configs of a selection with releases; the workers that it starts end with the stack.

    Args:
        address: of the Ray cluster whose nodes do it; empty for this machine.
    """

    def __init__(
        self, selection: PackageConfigs, bases: Mapping[ConfigKey, ConfigBase], stack: ExitStack, address: str = ""
    ) -> None:
        self.selection, self.bases, self._stack, self._address = selection, bases, stack, address
        self._cluster: ReleaseCluster | None = None
        keys = [config_key(loaded) for loaded in selection.configs]
        self._chunks = [tuple(keys[first : first + _CHUNK_SIZE]) for first in range(0, len(keys), _CHUNK_SIZE)]
        self._results: dict[tuple[Path, ConfigKey], Compatibility] = {}
        self._pool: WorkerPool | None = None
        self._checker: CompatibilityChecker | None = None
        self._alone = Lock()

    def result(self, release: Release, key: ConfigKey) -> Compatibility:
        """What came of a config and a release that were checked."""
        return self._results[release.folder, key]

    def check(
        self, requests: Iterable[tuple[Release, Collection[ConfigKey]]], progress: Progress | None = None
    ) -> None:
        """Check configs with releases, unless that was done; raises as :meth:`CompatibilityChecker.check` does."""
        tasks = list(self._tasks(requests))
        total, done = sum(len(keys) for _, keys in tasks), 0
        for (release, keys), results in zip(tasks, self._checked(tasks, total)):
            self._results |= {(release.folder, key): result for key, result in results.items()}
            done += len(keys)
            if progress is not None:
                progress(done, total)

    def _tasks(self, requests: Iterable[tuple[Release, Collection[ConfigKey]]]) -> Iterator[Task]:
        """What is to be done, one chunk of the configs after the other: a process keeps what it read for one."""
        pairs = [(release, set(keys)) for release, keys in requests]
        for chunk in self._chunks:
            for release, keys in pairs:
                lacking = tuple(k for k in chunk if k in keys and (release.folder, k) not in self._results)
                if lacking:
                    yield release, lacking

    def _checked(self, tasks: Sequence[Task], total: int) -> Iterator[dict[ConfigKey, Compatibility]]:
        if self._address:
            return self._on_cluster(tasks)
        size = min(count_cpus(), _MOST_WORKERS)
        if self._pool is None and (size == 1 or len(tasks) == 1 or total < WORTH_IT):
            return map(self._here, tasks)
        if self._pool is None:
            self._pool = self._stack.enter_context(WorkerPool(_HANDLER, size))
        pool = self._pool
        return pool.map(lambda task: pool.ask(self._request(task), lambda: self._here(task)), tasks)

    def _on_cluster(self, tasks: Sequence[Task]) -> Iterator[dict[ConfigKey, Compatibility]]:
        if self._cluster is None:
            paths = [loaded.path for loaded in self.selection.configs]
            cluster = ReleaseCluster(self._address, self.selection.project, paths, _HANDLER)
            self._cluster = self._stack.enter_context(closing(cluster))
        requests = list(map(self._request, tasks))
        releases = [
            [request.release, *(base.release for base in request.checker.bases.values() if base.release is not None)]
            for request in requests
        ]
        return self._cluster.map(requests, releases)

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
