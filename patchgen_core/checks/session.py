"""What a run of the gate knows about configs: each is made once, whichever checks ask."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgen_core.build.cache import Cache
from patchgen_core.build.inputs import InputReader
from patchgen_core.build.results import ConfigResult, DriftReport, Outcome, Progress
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.checking import check
from patchgen_core.checks.checked_in.compare import bare
from patchgen_core.checks.settings import DRIFT, Settings
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.project.project import Project
from patchgen_core.project.pyproject import PYPROJECT
from patchgen_core.project.table import load_project
from patchgen_core.workers.collector import without_collector

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Protocol, TypeVar

    from patchgen_core.build.results import Artifact
    from patchgen_core.checks.baseline import Baseline
    from patchgen_core.checks.checked_in.making import Onlooker
    from patchgen_core.checks.result import CheckResult
    from patchgen_core.config.input_recording import Input
    from patchgen_core.config.loading import Loader

    class _Closeable(Protocol):
        def close(self) -> None: ...

    class _ItemsAhead(_Closeable, Protocol):
        is_elsewhere: bool

        def take(self, check: Any, path: Path, item: str) -> tuple[CheckResult, ...] | None: ...

    _Resource = TypeVar("_Resource", bound=_Closeable)
    WarnBeforeFix = Callable[[Artifact, Path], tuple[Problem, ...]]


class Session:
    """What a run of the gate, which was started in the project ``home``, knows.

    Args:
        by_folder: make together the configs that share an output folder, and not all. For one of several processes
            that share the items. Configs of one folder stay together because two that write the same file are an
            error of both.
        artifacts: whether other checks than that of the drift need what configs make.
        named: config files beside those that projects find.
        with_forks: whether this process may be forked to make configs, see
            :func:`~patchgen_core.checks.checked_in.checking.check`.

    Attributes:
        chosen: the config files of which checks are going to run, with the names of those.
        warn_before_fix: by the name of a check, what gives its warnings of a config whose files are about to be
            rewritten, because they cannot be told afterwards.
        asked: inputs that came up when the items of a check ran last for a config file (:meth:`Check.take_asked`).
        items_ahead: what runs items in other processes; None where all run in this one.
        fork_server: what the processes of checks are forked from; None before the first of them.
    """

    def __init__(
        self,
        home: Project | None,
        settings: Settings,
        *,
        by_folder: bool = False,
        artifacts: bool = True,
        named: tuple[Path, ...] = (),
        with_forks: bool = False,
    ) -> None:
        self.home, self.settings, self.named = home, settings, named
        self.by_folder, self.artifacts, self._with_forks = by_folder, artifacts, with_forks
        self.chosen: dict[Path, set[str]] = {}
        self.warn_before_fix: dict[str, WarnBeforeFix] = {}
        self.asked: dict[tuple[str, Path], frozenset[Input]] = {}
        self.items_ahead: _ItemsAhead | None = None
        self.fork_server: _Closeable | None = None
        self._opened: dict[Project, set[str]] = {}
        self._projects: dict[Path, Project] = {}
        self._projects_by_table: dict[Path, Project] = {}
        self._loaders: dict[Project, Loader] = {}
        self._caches: dict[Project, Cache] = {}
        self._baselines: dict[Path, Baseline | None] = {}
        self._resources: dict[tuple[Project, type], Any] = {}
        self._results: dict[Path, list[ConfigResult] | PatchgenError] = {}

    # --- projects ---

    def project(self, path: Path) -> Project:
        """The project that a file belongs to: that of the nearest table, or the session's own; a PatchgenError where
        there is none, or its settings are wrong."""
        if path.parent not in self._projects:
            self._projects[path.parent] = self._find_project(path)
        return self._projects[path.parent]

    def _find_project(self, path: Path) -> Project:
        home = self.home if self.home is not None and path.is_relative_to(self.home.search_root) else None
        try:
            project = self._project_above(path.parent)
        except PatchgenError as error:
            if home is not None and error.problems[0].location is None:  # there is no table above the search root
                return home
            raise
        return home if home is not None and not path.is_relative_to(project.search_root) else project

    def _project_above(self, folder: Path) -> Project:
        """The project of the nearest table; each table is read once."""
        for place in (folder, *folder.parents):
            if place in self._projects_by_table:
                return self._projects_by_table[place]
            if (place / PYPROJECT).is_file():
                break
        project = load_project(folder)
        return self._projects_by_table.setdefault(project.base, project)

    def label(self, path: Path) -> str:
        """What reports call the config in a file that cannot be asked for its name."""
        try:
            return self.project(path).module_name(path)
        except PatchgenError:
            return path.stem

    def baseline(self, project: Project) -> Baseline | None:
        """The findings that a project holds back; None where it has no baseline, or nothing is to be held back.

        A PatchgenError where the file cannot be read.
        """
        if not self.settings.holds_back:
            return None
        if project.base not in self._baselines:
            from patchgen_core.checks.baseline import read_baseline  # which a check of the drift need not load

            self._baselines[project.base] = read_baseline(project)
        return self._baselines[project.base]

    # --- what projects share ---

    def loader(self, project: Project) -> Loader:
        """The loader of a project's configs, which parses each file once."""
        if project not in self._loaders:
            from patchgen_core.config.loading import Loader
            from patchgen_core.syntax.source import SourceCache

            self._loaders[project] = Loader(project, SourceCache())
        return self._loaders[project]

    def cache(self, project: Project) -> Cache | None:
        """What keeps a project's results; None when nothing is kept."""
        return self._caches.setdefault(project, Cache(project)) if self.settings.caching else None

    def resource(self, project: Project, kind: type[_Resource], make: Callable[[], _Resource]) -> _Resource:
        """What checks of a project share, such as a process: made once, and closed with the session."""
        key = (project, kind)
        if key not in self._resources:
            self._resources[key] = make()
        resource: _Resource = self._resources[key]
        return resource

    def opened_files(self, project: Project) -> set[str]:
        """The files that processes of a project have opened, of the system and of what is installed none."""
        of_project = (resource for (other, _), resource in self._resources.items() if other == project)
        opened = (getattr(resource, "opened", ()) for resource in of_project)
        return set().union(self._opened.get(project, ()), *opened)

    def note_opened(self, path: Path, files: Iterable[str]) -> None:
        """Note what processes elsewhere have opened that run checks of a config file."""
        self._opened.setdefault(self.project(path), set()).update(files)

    def run_item(self, check: Any, path: Path, item: str) -> tuple[CheckResult, ...]:
        """The results of an item of a check: of the process that runs it ahead, or run now in this one."""
        results = self.items_ahead.take(check, path, item) if self.items_ahead is not None else None
        if results is None:
            results = tuple(check.run(path, item))
            self.asked[check.name, path] = check.take_asked(path)
        return results

    def close(self) -> None:
        """End what was started, and forget everything."""
        if self.items_ahead is not None:
            self.items_ahead.close()
            self.items_ahead = None
        for resource in self._resources.values():
            resource.close()
        if self.fork_server is not None:
            self.fork_server.close()
            self.fork_server = None
        memories = (
            self._projects,
            self._projects_by_table,
            self._loaders,
            self._caches,
            self._resources,
            self._baselines,
        )
        for memory in (*memories, self._results):
            memory.clear()

    # --- configs ---

    def outcomes(self, project: Project, paths: Iterable[Path]) -> list[Outcome]:
        """What config files make, as far as the names of the files go; none is made for that."""
        cache, reader = self.cache(project), InputReader(project)
        selection = Selection(project)
        outcomes: list[Outcome] = []
        for path in paths:
            results = self._results.get(path)
            if not isinstance(results, list):
                results = cache.find(selection, path, reader) if cache is not None else []
            outcomes += [result.outcome for result in results] or self._load_outcomes(selection, path)
        return outcomes

    def _load_outcomes(self, selection: Selection, path: Path) -> list[Outcome]:
        from patchgen_core.build.artifacts import load_outcomes

        return load_outcomes(selection, path, self.loader(selection.project))

    def results(self, path: Path) -> list[ConfigResult]:
        """What the configs in a file make, beside what is checked in; made together with those of ``chosen``.

        Raises:
            PatchgenError: there is no project, or ruff cannot run.
        """
        if path not in self._results:
            self._make(path)
        results = self._results[path]
        if isinstance(results, PatchgenError):
            raise results
        return results

    def _make(self, path: Path) -> None:
        project, batch = self.project(path), self._batch(path)
        try:
            self.check(Selection(project, batch))
        except PatchgenError as error:
            self._results.update(dict.fromkeys(batch, error))
            return
        except BaseException:  # a time limit: the next item's is not to be spent on the same config
            self.by_folder = True
            raise
        cache = self.cache(project)
        if cache is not None and cache.failure:
            warnings.warn(f"patchgen: results cannot be kept: {cache.failure}", stacklevel=1)

    def check(
        self,
        selection: Selection,
        progress: Progress | None = None,
        needed: Collection[Path] | None = None,
        onlooker: Onlooker | None = None,
    ) -> DriftReport:
        """Make what is selected of a project, all at once; checks of these config files then ask for nothing again.

        Args:
            needed: the config files of which other checks will ask what they make; None for all.
            onlooker: looks at them when they are made. The session then holds nothing of those that it has heard of.

        Raises:
            PatchgenError: there is no config, or ruff cannot run.
        """
        project, cache = selection.project, self.cache(selection.project)
        artifacts = self.artifacts if needed is None else needed
        loader = self.loader(project) if artifacts else None
        made = {path: results for path, results in self._results.items() if not isinstance(results, PatchgenError)}
        with without_collector():
            report = check(
                selection,
                loader=loader,
                progress=progress,
                cache=cache,
                artifacts=artifacts,
                made=made,
                with_forks=self._with_forks,
                onlooker=onlooker if artifacts else None,
            )
        by_path: dict[Path, list[ConfigResult]] = {}
        for result in report.results:
            by_path.setdefault(result.outcome.path, []).append(result)
        for path, results in by_path.items():
            is_looked_at = onlooker is not None and path in onlooker.looked_at
            if (needed is None or path in needed) and not is_looked_at:
                self._results[path] = results if artifacts else list(map(bare, results))
        self._projects |= {path.parent: project for path in by_path}
        return report

    @contextmanager
    def holding(self, project: Project, results: Mapping[Path, list[ConfigResult]]) -> Iterator[None]:
        """Have checks that ask meanwhile what these config files of a project make get these results."""
        self._projects |= {path.parent: project for path in results}
        self._results |= results
        try:
            yield
        finally:
            for path in results:
                del self._results[path]

    def _batch(self, path: Path) -> list[Path]:
        project = self.project(path)
        batch = [path]
        for other in self.chosen:
            try:
                is_near = not self.by_folder or project.output_folder(other) == project.output_folder(path)
                if is_near and other not in self._results and other != path and self.project(other) == project:
                    batch.append(other)
            except PatchgenError:  # its own item will say so
                continue
        return sorted(batch)

    def is_drift_checked(self, path: Path) -> bool:
        """Whether the drift of a file is going to be checked."""
        return DRIFT in self.chosen.get(path, ())

    def is_fixed(self, result: ConfigResult) -> bool:
        """Whether a config's files are being rewritten in this run."""
        is_wanted = self.settings.fix and self.is_drift_checked(result.outcome.path)
        return is_wanted and result.status == "drifted"
