"""The check ``contract``."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from patchgen_core.build.results import Artifact, ConfigResult
from patchgen_core.checks.check import Check
from patchgen_core.checks.contract.run import Contracts
from patchgen_core.checks.result import NO_MODULE, CheckResult
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import CONTRACT
from patchgen_core.config.input_recording import Input
from patchgen_core.errors import Problem
from patchgen_core.project.project import Project

UPSTREAM_MOVED = frozenset(["PG215"])
"""What the checked-in files tell of and freshly written ones do not."""


class ContractCheck(Check):
    """The generated module keeps what upstream and its other patches rely on."""

    name = CONTRACT
    runs_code = False
    follows_configs = False
    follows_functions = False

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._contracts: dict[Project, Contracts] = {}
        session.warn_before_fix[self.name] = self._moved
        if session.home is not None:
            self.contracts(session.home)  # settings that name no rule are told before anything runs

    def contracts(self, project: Project) -> Contracts:
        """What runs the rules over a project's modules; a PatchgenError when its settings name no rule."""
        if project not in self._contracts:
            settings, sources = self.session.settings, self.session.loader(project).sources
            self._contracts[project] = Contracts(project, sources, settings.select, settings.ignore)
        return self._contracts[project]

    def forget(self, project: Project, paths: Collection[Path]) -> None:
        """Forget what was read of files that only configs which have been looked at are about."""
        self.contracts(project).forget(lambda source: source.path not in paths)
        self.session.loader(project).sources.forget(paths)

    def inputs(self, path: Path) -> Iterable[Path]:
        """The packages that register kernels: all their modules are read."""
        project = self.session.project(path)
        modules = filter(None, map(project.module_path, project.kernels))
        return [module.parent for module in modules if module.name == "__init__.py"]

    def take_asked(self, path: Path) -> frozenset[Input]:
        """What rules have asked of the rest of the project."""
        return self.contracts(self.session.project(path)).take_asked()

    def run(self, path: Path, item: str) -> Iterable[CheckResult]:
        """Run the contract rules over what the file's configs make."""
        return [self._examine(result) for result in self.session.results(path)]

    def _examine(self, result: ConfigResult) -> CheckResult:
        artifact, path = result.outcome.artifact, result.outcome.path
        if artifact is None:
            return self.nothing_made(result, NO_MODULE)
        contracts = self.contracts(self.session.project(path))
        codes = {rule.code for rule in contracts.rules}
        if self.session.settings.fix and self.session.is_drift_checked(path):
            codes -= UPSTREAM_MOVED
        return contracts.examine(artifact, path, codes)

    def _moved(self, artifact: Artifact, path: Path) -> tuple[Problem, ...]:
        return self.contracts(self.session.project(path)).examine(artifact, path, UPSTREAM_MOVED).warnings
