"""Keeping the generated files of a project up to date while its files change."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchgen_core.build.cache import Cache
from patchgen_core.build.results import ConfigResult, DriftReport
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.compare import check, find_orphans, fix
from patchgen_core.config.loading import Loader
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.project.project import Project
from patchgen_core.project.pyproject import PYPROJECT
from patchgen_core.watch.events import Batch, watched_folders
from patchgen_core.watch.known import Asking, Known, learn
from patchgen_core.watch.sources import KeptSources

_FEW = 8
"""Up to so many configs are shown before their results are kept."""


@dataclass(frozen=True)
class Update:
    """What came of a change.

    Attributes:
        report: the verdicts that are news, with what drifted written already, and the orphans that are news.
        repaired: labels of configs that had errors and have none any more.
        gone: labels of configs whose files were removed.
        problems: why nothing could be looked at.
    """

    report: DriftReport = field(default_factory=lambda: DriftReport(()))
    repaired: frozenset[str] = frozenset()
    gone: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.report.results or self.report.orphans or self.gone or self.problems)


class Session:
    """The state of a watch.

    Args:
        load: finds the project; called again when its ``pyproject.toml`` changes.
        select: which configs of it are kept up to date.
        is_caching: whether results of earlier runs are used, and new ones kept.

    Attributes:
        project: the project.
        selection: which configs are kept up to date.
        cache: its kept results; None without.
        outputs: the generated files that are known.

    Raises:
        PatchgenError: there is no project, or what is chosen is not in it.
    """

    def __init__(self, load: Callable[[], Project], select: Callable[[Project], Selection], is_caching: bool) -> None:
        self._load, self._select, self._is_caching = load, select, is_caching
        self._sources = KeptSources()
        self._orphans: tuple[Path, ...] = ()
        self.outputs: frozenset[Path] = frozenset()
        self._is_behind = self._is_unread = False
        self._unsettled: Callable[[], None] = _nothing
        self._take(load())

    def _take(self, project: Project) -> None:
        self.selection = self._select(project)
        self.project = project
        self.cache = Cache(project) if self._is_caching else None
        self._known: dict[Path, Known] = {}
        self._cold: list[Path] | None = None

    @property
    def folders(self) -> set[Path]:
        """The folders in which a change may concern the project."""
        return watched_folders(self.project).union(*(known.folders for known in self._known.values()))

    def start(self) -> DriftReport:
        """Check all configs, and write what drifted.

        Raises:
            PatchgenError: there is none, or ruff cannot run.
        """
        report = fix(check(self.selection, loader=Loader(self.project, self._sources), cache=self.cache))
        self._orphans = report.orphans
        self._settle_later(report.results, Asking(self.project), False)
        return report

    def update(self, batch: Batch) -> Update:
        """Generate what a change concerns, and write what drifted."""
        importlib.invalidate_caches()
        self._sources.forget_changed(batch.files)
        try:
            update = self._update(batch)
        except PatchgenError as error:
            self._is_behind = True
            return Update(problems=error.problems)
        self._is_behind = False
        return update

    def settle(self) -> None:
        """Do what can wait until an update is shown: keep the results, and learn what they depend on."""
        self._unsettled()
        self._unsettled = _nothing
        self.outputs = frozenset(path for known in self._known.values() for path in known.outputs)
        self._sources.forget_oldest()

    def warm(self) -> bool:
        """Do a part of what the first save of a config would have to wait for; whether there is more of it."""
        if self._cold is None:
            self._rehearse()
            files = {file for known in self._known.values() for file in known.files - known.outputs.keys()}
            self._cold = sorted(files)
        while self._cold and self._sources.has_room:
            path = self._cold.pop()
            try:
                self._sources.get(path)
                return True
            except PatchgenError:
                continue
        return False

    def _rehearse(self) -> None:
        """Generate a config and forget it, which imports all that it takes."""
        try:
            for path in list(self._known)[:1]:
                check(Selection(self.project, [path]), loader=Loader(self.project, self._sources))
        except PatchgenError:
            return

    def _update(self, batch: Batch) -> Update:
        if self._is_unread or batch.is_lost or self.project.base / PYPROJECT in batch.files:
            self._reload()
        is_wide = self._is_behind or self._is_wide(batch)
        paths = self._paths() if is_wide else list(self._known)
        gone = [self._known.pop(path) for path in list(self._known) if path not in paths]
        machine = Asking(self.project)
        is_source = is_wide or not batch.files <= self.outputs
        stale = [path for path in paths if self._is_stale(path, batch, is_wide, is_source, machine)]
        results = self._make(stale, machine)
        orphans = self._new_orphans(results) if is_wide or self._leaves(results) else ()
        shown = [result for result in results if self._is_news(result, batch)]
        repaired = {r.outcome.label for r in shown if r.status != "error" and self._had_errors(r.outcome.path)}
        labels = tuple(outcome.label for known in gone for outcome in known.outcomes)
        return Update(DriftReport(tuple(shown), orphans), frozenset(repaired), labels)

    def _reload(self) -> None:
        self._is_unread = True
        project = self._load()
        if project != self.project:
            self._take(project)
        self._is_unread = False

    def _paths(self) -> list[Path]:
        return self.project.find_configs() if self.selection.configs is None else list(self.selection.configs)

    def _is_wide(self, batch: Batch) -> bool:
        """Whether a change may concern any config: it is not only of files that configs are known to depend on."""
        if batch.is_lost or batch.folders:
            return True
        known = {path for known in self._known.values() for path in known.files}
        return any(path not in known or not path.is_file() for path in batch.files - self.outputs)

    def _is_stale(self, path: Path, batch: Batch, is_wide: bool, is_source: bool, machine: Asking) -> bool:
        """Whether a config must be generated again.

        Args:
            path: the config file.
            batch: what happened.
            is_wide: whether that may concern any config.
            is_source: whether more than generated files changed.
            machine: answers what it depends on.
        """
        known = self._known.get(path)
        if known is None:
            return True
        is_touched = not known.files.isdisjoint(batch.files)
        if known.answers is None:
            return is_touched or is_source
        if known.is_doubtful and is_source:
            return True
        return (is_wide or is_touched) and not known.is_current(machine)

    def _make(self, paths: Sequence[Path], machine: Asking) -> tuple[ConfigResult, ...]:
        """Generate configs and write what drifted."""
        if not paths:
            return ()
        for path in paths:
            machine.read("file", machine.place(path) or "")  # as it is before the config is read
        is_quick = len(paths) <= _FEW and all(path in self._known for path in paths)
        results = self._check(paths, None if is_quick else self.cache)
        if others := self._sharing(results):
            results = self._check([*paths, *others], None)
        results = fix(DriftReport(results)).results
        self._settle_later(results, machine, is_quick)
        return results

    def _check(self, paths: Sequence[Path], cache: Cache | None) -> tuple[ConfigResult, ...]:
        loader = Loader(self.project, self._sources)
        return check(replace(self.selection, configs=paths), loader=loader, cache=cache).results

    def _sharing(self, results: Iterable[ConfigResult]) -> list[Path]:
        """Other config files that write a file which one of these writes."""
        made = {result.outcome.path for result in results}
        targets = {os.path.realpath(r.outcome.output) for r in results if r.outcome.output is not None}
        others = [(path, known) for path, known in self._known.items() if path not in made]
        return [path for path, known in others if targets.intersection(map(os.path.realpath, known.outputs))]

    def _had_errors(self, path: Path) -> bool:
        return path in self._known and bool(self._known[path].problems)

    def _is_news(self, result: ConfigResult, batch: Batch) -> bool:
        known = self._known.get(result.outcome.path)
        if result.status == "fixed" or known is None or not known.files.isdisjoint(batch.files - self.outputs):
            return True
        if result.status == "error":
            return any(problem not in known.problems for problem in result.outcome.problems)
        return bool(known.problems) or not (known.answers is None or known.is_doubtful)

    def _leaves(self, results: Iterable[ConfigResult]) -> bool:
        """Whether a config does not make a file any more that it made before."""
        now = {result.outcome.output for result in results}
        before = (self._known.get(result.outcome.path) for result in results)
        return any(outcome.output not in now for known in before if known is not None for outcome in known.outcomes)

    def _new_orphans(self, results: Iterable[ConfigResult]) -> tuple[Path, ...]:
        if not self.selection.is_whole:
            return ()
        made = {result.outcome.path for result in results}
        known = [o for path, known in self._known.items() if path not in made for o in known.outcomes]
        before = self._orphans
        self._orphans = find_orphans(self.project, [*known, *(result.outcome for result in results)])
        return tuple(path for path in self._orphans if path not in before)

    def _settle_later(self, results: Sequence[ConfigResult], machine: Asking, is_kept: bool) -> None:
        self._unsettled = lambda: self._settle(results, machine, is_kept)

    def _settle(self, results: Sequence[ConfigResult], machine: Asking, is_kept: bool) -> None:
        """Keep results if that is still to be done, and learn what they depend on."""
        by_path: dict[Path, list[ConfigResult]] = {}
        for result in results:
            by_path.setdefault(result.outcome.path, []).append(result)
        cache = self.cache
        if cache is not None and is_kept:
            cache.keep(self.selection, [result.outcome for result in results], machine)
        for path, made in by_path.items():
            machine.asked = {}
            is_known = all(result.outcome.inputs is not None for result in made)
            is_found = not is_known and cache is not None and bool(cache.find(self.selection, path, machine))
            self._known[path] = learn(self.project, path, made, machine.asked if is_found else {})


def _nothing() -> None:
    return
