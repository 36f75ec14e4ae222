"""The contract rules, run over configs where these are made: in this process, or in forks of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.build.results import ConfigResult
from patchgen_core.checks.checked_in.making import list_outcomes
from patchgen_core.checks.contract.check import ContractCheck
from patchgen_core.checks.kept.asking import kept_of_project
from patchgen_core.checks.kept.to_keep import ToKeep
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import CONTRACT
from patchgen_core.project.project import Project


@dataclass(frozen=True)
class Said:
    """What the rules say of a config file, and what there is to keep of it."""

    path: Path
    results: tuple[CheckResult, ...]
    to_keep: tuple[ToKeep, ...]


class ContractOnlooker:
    """Has the rules run over some config files of a project as soon as they are made, so that syntax trees of few are
    held at once."""

    def __init__(self, session: Session, project: Project, check: ContractCheck, paths: Collection[Path]) -> None:
        self._said: dict[Path, Said] = {}
        self._session, self._project, self._check, self._paths = session, project, check, paths

    @property
    def looked_at(self) -> Collection[Path]:
        """The config files of which it has heard."""
        return self._said.keys()

    def look(self, results: dict[Path, list[ConfigResult]]) -> list[Said]:
        """What the rules say of the config files of a batch."""
        with self._session.holding(self._project, results):
            said = [self._ask(path) for path in results if path in self._paths]
        artifacts = (outcome.artifact for outcome in list_outcomes(results))
        upstream = {artifact.plan.source.path for artifact in artifacts if artifact is not None}
        self._check.forget(self._project, results.keys() | upstream)
        return said

    def _ask(self, path: Path) -> Said:
        kept = kept_of_project(self._session, self._project)
        if kept is None:
            return Said(path, self._session.run_item(self._check, path, CONTRACT), ())
        results, to_keep = kept.run_apart(self._check, path, CONTRACT)
        return Said(path, results, tuple(to_keep))

    def hear(self, said: Iterable[Said]) -> None:
        """Learn what was said of a batch."""
        self._said |= {each.path: each for each in said}

    def forget(self, paths: Iterable[Path]) -> None:
        """Forget what was said of config files."""
        for path in paths:
            self._said.pop(path, None)

    def take_results(self, path: Path) -> tuple[CheckResult, ...] | None:
        """The results of a config file, which are kept in the end; None where it was not looked at."""
        said = self._said.pop(path, None)
        if said is None:
            return None
        kept = kept_of_project(self._session, self._project)
        if kept is not None:
            kept.take(said.to_keep)
        return said.results
