"""Verdicts on configs, made in batches: one run of ruff does for many configs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen_core.build.cache import Cache
from patchgen_core.build.inputs import InputReader
from patchgen_core.build.results import ConfigResult, Outcome
from patchgen_core.build.selection import Selection
from patchgen_core.checks.drift.drift import bare, check
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project, load_project
from patchgen_core.project.pyproject import PYPROJECT
from patchgen_core.workers.collector import without_collector

if TYPE_CHECKING:
    from patchgen_core.checks.contract.run import Contracts
    from patchgen_core.checks.importing import Importer
    from patchgen_core.checks.parity.client import ModelChecks
    from patchgen_core.config.loading import Loader


@dataclass(frozen=True)
class Running:
    """How a session runs models and kernels.

    Attributes:
        device: "auto", "cpu" or "cuda".
        isolate: each in a process of its own.
        time_limit: seconds that one check may take; None for as long as it may where nobody says.
    """

    device: str = "auto"
    isolate: bool = False
    time_limit: float | None = None


class Verdicts:
    """What the session knows about its configs; each is generated once.

    Args:
        home: the project that the session was started in.
        by_folder: make a batch of the configs that share an output folder, and not of all. For an xdist worker,
            which runs only some of the items. Configs of one folder stay together because two that write the
            same file are an error of both.
        running: how models are run.
        caching: whether results are kept for later runs, and taken from earlier ones where nothing more is needed.
        artifacts: whether other checks than that of the drift need what configs make.
    """

    def __init__(
        self, home: Project | None, by_folder: bool, running: Running, caching: bool, artifacts: bool
    ) -> None:
        self.home, self.by_folder, self.running = home, by_folder, running
        self.caching, self.artifacts = caching, artifacts
        self._caches: dict[Project, Cache] = {}
        self._loaders: dict[Project, Loader] = {}
        self._projects: dict[Path, Project] = {}
        self._homes: dict[Path, Project] = {}
        self._importers: dict[Project, Importer] = {}
        self._models: dict[Project, ModelChecks] = {}
        self._contracts: dict[Project, Contracts] = {}
        self._found: dict[Path, list[ConfigResult] | PatchgenError] = {}

    def project(self, path: Path) -> Project:
        """The project that a config belongs to: that of the nearest table, or the session's own.

        Raises:
            PatchgenError: there is none, or its settings are wrong.
        """
        if path.parent not in self._projects:
            self._projects[path.parent] = self._find_project(path)
        return self._projects[path.parent]

    def _find_project(self, path: Path) -> Project:
        is_at_home = self.home is not None and path.is_relative_to(self.home.search_root)
        try:
            project = self._project_above(path.parent)
        except PatchgenError as error:
            if is_at_home and error.problems[0].location is None:  # there is no table above the search root
                assert self.home is not None
                return self.home
            raise
        if is_at_home and not path.is_relative_to(project.search_root):
            assert self.home is not None
            return self.home
        return project

    def _project_above(self, folder: Path) -> Project:
        """The project of the nearest table; each table is read once."""
        for place in (folder, *folder.parents):
            if place in self._homes:
                return self._homes[place]
            if (place / PYPROJECT).is_file():
                break
        project = load_project(folder)
        return self._homes.setdefault(project.base, project)

    def loader(self, project: Project) -> Loader:
        """The loader of a project's configs, which parses each file once."""
        if project not in self._loaders:
            from patchgen_core.config.loading import Loader
            from patchgen_core.syntax.source import SourceCache

            self._loaders[project] = Loader(project, SourceCache())
        return self._loaders[project]

    def cache(self, project: Project) -> Cache | None:
        """What keeps a project's results; None when nothing is kept."""
        return self._caches.setdefault(project, Cache(project)) if self.caching else None

    def outcomes(self, project: Project, paths: Iterable[Path]) -> list[Outcome]:
        """What config files make, as far as the names of the files go; none is made for that."""
        cache, reader = None if self.artifacts else self.cache(project), InputReader(project)
        selection = Selection(project)
        outcomes: list[Outcome] = []
        for path in paths:
            found = self._found.get(path)
            if not isinstance(found, list):
                found = cache.find(selection, path, reader) if cache is not None else []
            outcomes += [result.outcome for result in found] or self._load_outcomes(selection, path)
        return outcomes

    def _load_outcomes(self, selection: Selection, path: Path) -> list[Outcome]:
        from patchgen_core.build.artifacts import load_outcomes

        return load_outcomes(selection, path, self.loader(selection.project))

    def importer(self, project: Project) -> Importer:
        """What imports a project's generated modules."""
        if project not in self._importers:
            from patchgen_core.checks.importing import Importer

            self._importers[project] = Importer(project)
        return self._importers[project]

    def models(self, project: Project) -> ModelChecks:
        """What runs a project's models and kernels."""
        if project not in self._models:
            from patchgen_core.checks.parity.client import TIME_LIMIT, ModelChecks

            running = self.running
            limit = running.time_limit if running.time_limit is not None else TIME_LIMIT
            self._models[project] = ModelChecks(project, running.device, running.isolate, limit)
        return self._models[project]

    def contracts(self, project: Project) -> Contracts:
        """What runs contract rules over a project's generated modules.

        Raises:
            PatchgenError: the project's settings name no rule.
        """
        if project not in self._contracts:
            from patchgen_core.checks.contract.run import Contracts

            self._contracts[project] = Contracts(project, self.loader(project).sources)
        return self._contracts[project]

    def results(self, path: Path, others: Iterable[Path]) -> list[ConfigResult]:
        """What the drift check says of the configs in a file.

        Args:
            path: the file.
            others: the files that will be asked for as well.

        Raises:
            PatchgenError: there is no project, or ruff cannot run.
        """
        if path not in self._found:
            self._check(path, self._batch(path, others))
        found = self._found[path]
        if isinstance(found, PatchgenError):
            raise found
        return found

    def _batch(self, path: Path, others: Iterable[Path]) -> list[Path]:
        project = self.project(path)
        batch = [path]
        for other in others:
            try:
                is_near = not self.by_folder or project.output_folder(other) == project.output_folder(path)
                if is_near and other not in self._found and other != path and self.project(other) == project:
                    batch.append(other)
            except PatchgenError:  # its own item will say so
                continue
        return sorted(batch)

    def _check(self, path: Path, batch: list[Path]) -> None:
        project, cache = self.project(path), self.cache(self.project(path))
        try:
            with without_collector():
                results = check(
                    Selection(project, batch),
                    loader=self.loader(project) if self.artifacts else None,
                    cache=cache,
                    artifacts=self.artifacts,
                ).results
        except PatchgenError as error:
            self._found.update(dict.fromkeys(batch, error))
            return
        except BaseException:  # a time limit: the next item's is not to be spent on the same config
            self.by_folder = True
            raise
        if cache is not None and cache.failure:
            warnings.warn(f"patchgen: results cannot be kept: {cache.failure}", stacklevel=1)
        found: dict[Path, list[ConfigResult]] = {entry: [] for entry in batch}
        for result in results:
            found[result.outcome.path].append(result if self.artifacts else bare(result))
        self._found.update(found)

    def close(self) -> None:
        """End the processes that modules are imported in, and forget everything."""
        for importer in self._importers.values():
            importer.close()
        for models in self._models.values():
            models.close()
        memories = (self._loaders, self._caches, self._projects, self._homes, self._importers, self._models)
        for known in (*memories, self._contracts, self._found):
            known.clear()
