"""Keeping the generated files of a project up to date while its files change."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from patchgen_core.build.cache import Cache
from patchgen_core.build.results import ConfigResult, DriftReport
from patchgen_core.build.ruff_setup import RuffSettings
from patchgen_core.build.selection import Selection
from patchgen_core.checks.baseline import hold_back, read_baseline
from patchgen_core.checks.checked_in.checking import check
from patchgen_core.checks.checked_in.compare import bare, fix
from patchgen_core.checks.checked_in.outputs import find_orphans
from patchgen_core.checks.contract.run import Contracts
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.settings import CONTRACT
from patchgen_core.config.input_recording import Input
from patchgen_core.config.loading import Loader
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.project.project import Project
from patchgen_core.project.pyproject import PYPROJECT
from patchgen_core.upstream.module import find_upstream
from patchgen_core.watch.events import Batch, watched_folders
from patchgen_core.watch.sources import ParsedFiles


@dataclass(frozen=True)
class Update:
    """What came of a change.

    Attributes:
        report: the verdicts that are news, with what drifted written already, and the orphans that are news.
        repaired: labels of configs that had errors and have none any more.
        gone: labels of configs whose files were removed.
    """

    report: DriftReport = field(default_factory=lambda: DriftReport(()))
    repaired: frozenset[str] = frozenset()
    gone: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.report.results or self.report.orphans or self.gone or self.problems)


@dataclass(frozen=True)
class _FileState:
    """What became of a config file, and what that depends on."""

    results: tuple[ConfigResult, ...] = ()

    @property
    def inputs(self) -> Mapping[Input, Any]:
        """What the results depend on, as far as that is known."""
        return dict(chain.from_iterable((result.outcome.inputs or {}).items() for result in self.results))

    @property
    def problems(self) -> set[Problem]:
        """Why it makes nothing."""
        return {problem for result in self.results for problem in result.outcome.problems}


class WatchSession:
    """The state of a watch. After a change all configs are checked: the cache knows which of them it concerns.

    Args:
        load: finds the project; called again when its ``pyproject.toml`` changes.
        select: which of its configs are kept up to date.
        is_caching: whether results of earlier runs are used, and new ones kept for later runs.

    Raises:
        PatchgenError: there is no project, or what is selected is not in it.
    """

    def __init__(self, load: Callable[[], Project], select: Callable[[Project], Selection], is_caching: bool) -> None:
        self._load, self._select, self._is_caching = load, select, is_caching
        self._cache_of_session: tempfile.TemporaryDirectory[str] | None = None
        self._sources = ParsedFiles()
        self._unparsed: list[Path] | None = None
        self._is_outdated = False
        self.cache_failure = ""
        self._open(load())

    def _open(self, project: Project) -> None:
        self.project, self._selection = project, self._select(project)
        self._cache = Cache(project) if self._is_caching and not self.cache_failure else self._session_cache(project)
        self._states: dict[Path, _FileState] = {}
        self._orphans: tuple[Path, ...] = ()
        self._executed_files: set[Path] = set()
        self.outputs: frozenset[Path] = frozenset()

    def _session_cache(self, project: Project) -> Cache:
        if self._cache_of_session is None:
            self._cache_of_session = tempfile.TemporaryDirectory(prefix="patchgen-")
        return Cache(project, Path(self._cache_of_session.name))

    @property
    def folders(self) -> set[Path]:
        """The folders in which a change may concern the project."""
        files = self.outputs.union(self._input_files(), self._executed_files)
        return watched_folders(self.project) | {path.parent for path in files}

    def start(self) -> DriftReport:
        """Check all configs, and write what drifted; a PatchgenError when there is none, or ruff cannot run."""
        report = self._check()
        self._remember(report)
        return report

    def update(self, batch: Batch) -> Update:
        """Generate what a change concerns, and write what drifted."""
        importlib.invalidate_caches()
        self._sources.forget_changed(batch.files)
        try:
            if self._is_outdated or batch.is_lost or self.project.base / PYPROJECT in batch.files:
                self._reload()
            report = self._check()
        except PatchgenError as error:
            if self._is_outdated or self._has_configs():
                return Update(problems=error.problems)
            report = DriftReport((), find_orphans(self.project, ()) if self._selection.is_whole else ())
        before, orphans = self._states, self._orphans
        self._remember(report)
        news = [result for result in report.results if self._is_news(result, before, batch)]
        outcomes = [result.outcome for result in news if result.status != "error"]
        repaired = {outcome.label for outcome in outcomes if outcome.path in before and before[outcome.path].problems}
        gone = [result.outcome.label for path in before if path not in self._states for result in before[path].results]
        new_orphans = tuple(path for path in report.orphans if path not in orphans)
        return Update(DriftReport(tuple(news), new_orphans), frozenset(repaired), tuple(gone))

    def warm_up(self) -> bool:
        """Do a part of what the first save of a config would have to wait for; whether there is more of it."""
        if self._unparsed is None:
            self._rehearse()
            self._unparsed = sorted(path for path in self._input_files() if path.suffix == ".py")
        while self._unparsed and self._sources.has_room:
            try:
                self._sources.get(self._unparsed.pop())
                return True
            except PatchgenError:
                continue
        return False

    def close(self) -> None:
        """Remove what was kept for this session alone."""
        if self._cache_of_session is not None:
            self._cache_of_session.cleanup()

    def _rehearse(self) -> None:
        """Generate a config and forget it, which imports all that it takes."""
        try:
            check(Selection(self.project, list(self._states)[:1]), loader=Loader(self.project, self._sources))
        except PatchgenError:
            return

    def _reload(self) -> None:
        self._is_outdated = True
        project = self._load()
        if project != self.project:
            self._open(project)
        self._is_outdated = False

    def _has_configs(self) -> bool:
        return self._selection.configs is not None or bool(self.project.find_configs())

    def _check(self) -> DriftReport:
        loader = Loader(self.project, self._sources)
        report = fix(check(self._selection, loader=loader, cache=self._cache))
        if self._cache.failure:
            self.cache_failure, self._cache = self._cache.failure, self._session_cache(self.project)
        return report

    def find_concerned(self, update: Update, batch: Batch) -> list[Path]:
        """The config files of which other checks may say something else after a change: those that made something
        new, and those beside a file that was saved, such as a converter or a toy configuration."""
        news = {result.outcome.path for result in update.report.results if result.status != "error"}
        folders = {file.parent for file in batch.files - self.outputs if file.suffix == ".py"}
        sound = {path for path, state in self._states.items() if not state.problems}
        return sorted(news | {path for path in sound if path.parent in folders})

    def touches_upstream(self, batch: Batch) -> bool:
        """Whether a change is one of the packages that configs patch."""
        settings = RuffSettings(self.project)
        files = [_files_of_input(settings, kind, name) for kind, name in self._inputs if kind == "upstream"]
        packages = {package for _, package in filter(None, files)}
        return any(path.is_relative_to(package) for path in batch.files | batch.folders for package in packages)

    def examine(self, update: Update) -> Iterator[CheckResult]:
        """What the contract rules find in what a change had made, but for what the project's baseline holds back.

        A PatchgenError where the project's settings name no rule, or the baseline cannot be read.
        """
        outcomes = [result.outcome for result in update.report.results]
        artifacts = [(outcome.artifact, outcome.path) for outcome in outcomes if outcome.artifact is not None]
        if not artifacts:
            return
        contracts, baseline = Contracts(self.project, self._sources), read_baseline(self.project)
        for artifact, path in artifacts:
            result = contracts.examine(artifact, path)
            result = hold_back(result, CONTRACT, baseline) if baseline is not None else result
            if result.errors or result.warnings:
                yield result

    def _remember(self, report: DriftReport) -> None:
        """Remember what configs make and what that depends on, and forget the syntax trees."""
        by_path: dict[Path, list[ConfigResult]] = {}
        for result in report.results:
            by_path.setdefault(result.outcome.path, []).append(bare(result))
        self._states = {path: _FileState(tuple(results)) for path, results in by_path.items()}
        self._orphans = report.orphans
        modules = [result.outcome.output for result in report.results if result.outcome.output is not None]
        self.outputs = frozenset([*modules, *(module.with_suffix(".diff") for module in modules)])
        self._executed_files = _executed_files(report.results)
        self._sources.forget_oldest()

    def _is_news(self, result: ConfigResult, before: Mapping[Path, _FileState], batch: Batch) -> bool:
        path = result.outcome.path
        if result.status == "fixed" or path not in before:
            return True
        if result.status == "error":
            return path in batch.files or not before[path].problems.issuperset(result.outcome.problems)
        return bool(before[path].problems) or before[path].inputs != self._states[path].inputs

    def _input_files(self) -> set[Path]:
        settings = RuffSettings(self.project)
        return set(chain.from_iterable(_files_of_input(settings, *each) for each in self._inputs))

    @property
    def _inputs(self) -> set[Input]:
        return set(chain.from_iterable(state.inputs for state in self._states.values()))


def _files_of_input(settings: RuffSettings, kind: str, name: str) -> list[Path]:
    project = settings.project
    try:
        if kind == "file":
            return [project.base / name]
        if kind == "ruff":
            return settings.chain(settings.file(project.base / name))
        if kind == "upstream":
            path = find_upstream(name, project.upstream).path
            depth = name.count(".") + (path.name == "__init__.py")
            return [path, path.parents[depth] / name.partition(".")[0]]  # beside its package stands its version
    except PatchgenError:
        pass
    return []


def _executed_files(results: Iterable[ConfigResult]) -> set[Path]:
    loaded = [result.outcome.loaded for result in results if result.outcome.loaded is not None]
    files = (namespace.get("__file__") for config in loaded for namespace in config.modules.values())
    return {Path(file) for file in files if file}
