"""Verdicts on configs, made in batches: one run of ruff does for many configs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen_core.codegen.source import SourceCache
from patchgen_core.drift import ConfigResult, check
from patchgen_core.errors import PatchgenError
from patchgen_core.garbage import without_collector
from patchgen_core.importing import Importer
from patchgen_core.loading import Loader
from patchgen_core.parity.client import TIME_LIMIT, ModelChecks
from patchgen_core.project import Project, load_project

if TYPE_CHECKING:
    from patchgen_core.contracts.run import Contracts


@dataclass(frozen=True)
class Running:
    """How a session runs models and kernels.

    Attributes:
        device: "auto", "cpu" or "cuda".
        isolate: each in a process of its own.
        time_limit: seconds that one check may take.
    """

    device: str = "auto"
    isolate: bool = False
    time_limit: float = TIME_LIMIT


class Verdicts:
    """What the session knows about its configs; each is generated once.

    Args:
        home: the project that the session was started in.
        by_folder: make a batch of the configs that share an output folder, and not of all. For an xdist worker,
            which runs only some of the items. Configs of one folder stay together because two that write the
            same file are an error of both.
        running: how models are run.
    """

    def __init__(self, home: Project | None, by_folder: bool, running: Running) -> None:
        self.home, self.by_folder, self.running = home, by_folder, running
        self._loaders: dict[Project, Loader] = {}
        self._projects: dict[Path, Project] = {}
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
            project = load_project(path.parent)
        except PatchgenError as error:
            if is_at_home and error.problems[0].location is None:  # there is no table above the search root
                assert self.home is not None
                return self.home
            raise
        if is_at_home and not path.is_relative_to(project.search_root):
            assert self.home is not None
            return self.home
        return project

    def loader(self, project: Project) -> Loader:
        """The loader of a project's configs, which parses each file once."""
        return self._loaders.setdefault(project, Loader(project, SourceCache()))

    def importer(self, project: Project) -> Importer:
        """What imports a project's generated modules."""
        return self._importers.setdefault(project, Importer(project))

    def models(self, project: Project) -> ModelChecks:
        """What runs a project's models and kernels."""
        if project not in self._models:
            running = self.running
            self._models[project] = ModelChecks(project, running.device, running.isolate, running.time_limit)
        return self._models[project]

    def contracts(self, project: Project) -> Contracts:
        """What runs contract rules over a project's generated modules.

        Raises:
            PatchgenError: the project's settings name no rule.
        """
        if project not in self._contracts:
            from patchgen_core.contracts.run import Contracts

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
        project = self.project(path)
        try:
            with without_collector():
                results = check(project, batch, loader=self.loader(project)).results
        except PatchgenError as error:
            self._found.update(dict.fromkeys(batch, error))
            return
        except BaseException:  # a time limit: the next item's is not to be spent on the same config
            self.by_folder = True
            raise
        for entry in batch:
            self._found[entry] = [result for result in results if result.outcome.path == entry]

    def close(self) -> None:
        """End the processes that modules are imported in, and forget everything."""
        for importer in self._importers.values():
            importer.close()
        for models in self._models.values():
            models.close()
        for known in (self._loaders, self._projects, self._importers, self._models, self._contracts, self._found):
            known.clear()
