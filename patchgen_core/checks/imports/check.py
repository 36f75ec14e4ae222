"""The check ``import``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from patchgen_core.build.results import ConfigResult
from patchgen_core.checks.check import Check
from patchgen_core.checks.imports.importing import Importer
from patchgen_core.checks.result import CheckResult, with_errors

_DRIFTED = "The file has drifted: mend that first."


class ImportCheck(Check):
    """The generated module imports, and exports what upstream exports."""

    name = "import"

    def run(self, path: Path, item: str) -> Iterable[CheckResult]:
        """Import what is checked in, or what a run that rewrites files puts there."""
        return [self._import(result) for result in self.session.results(path)]

    def _import(self, result: ConfigResult) -> CheckResult:
        artifact = result.outcome.artifact
        is_fixed = self.session.is_fixed(result)
        if artifact is None or (not is_fixed and not artifact.path.exists()):
            return self.nothing_made(result, "there is nothing to import: the drift check says why")
        project = self.session.project(result.outcome.path)
        importer = self.session.resource(project, Importer, lambda: Importer(project))
        imported = importer.check(artifact, fresh=is_fixed)
        if result.status == "drifted" and not is_fixed:
            errors = (replace(error, hint=f"{error.hint} {_DRIFTED}".strip()) for error in imported.errors)
            imported = with_errors(imported, errors)
        return self.result(result, imported.status, reason=imported.reason, errors=imported.errors)
