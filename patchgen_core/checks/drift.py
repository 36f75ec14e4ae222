"""The check ``drift``: the checked-in files are what the configs make; and none is there that no config makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from patchgen_core.build.results import ConfigResult
from patchgen_core.checks.check import Check
from patchgen_core.checks.checked_in.compare import fix_result, remove
from patchgen_core.checks.checked_in.outputs import find_orphans
from patchgen_core.checks.result import CheckResult, Status, drift_result, orphans_result
from patchgen_core.errors import Problem
from patchgen_core.project.table import load_project

ORPHANS = "orphans"
"""The item that concerns no config of a project."""


class DriftCheck(Check):
    """Generated files are what their config makes."""

    name = "drift"

    def project_items(self, path: Path) -> Iterator[str]:
        """One item that looks for generated files without a config."""
        yield ORPHANS

    def run(self, path: Path, item: str) -> Iterable[CheckResult]:
        """Compare with a fresh generation, and write what drifted where that is wanted."""
        if item == ORPHANS:
            return [self._find_orphans(path)]
        results = self.session.results(path)
        return [self._fix(result) for result in results] if self.session.settings.fix else map(drift_result, results)

    def _fix(self, result: ConfigResult) -> CheckResult:
        """Rewrite what drifted; what cannot be told afterwards is told here."""
        artifact, path = result.outcome.artifact, result.outcome.path
        warnings: list[Problem] = []
        if artifact is not None and self.session.is_fixed(result):
            for name, warn in self.session.warn_before_fix.items():
                if name in self.session.chosen[path]:
                    warnings += warn(artifact, path)
        return replace(drift_result(fix_result(result, self.session.project(path))), warnings=tuple(warnings))

    def _find_orphans(self, path: Path) -> CheckResult:
        project = load_project(path.parent)
        named = [other for other in self.session.named if self.session.project(other) == project]
        paths = dict.fromkeys([*project.find_configs(), *named])
        orphans = find_orphans(project, self.session.outcomes(project, paths))
        status: Status = "failed" if orphans else "clean"
        if orphans and self.session.settings.prune:
            remove(orphans)
            status = "fixed"
        return orphans_result(path, orphans, status)
