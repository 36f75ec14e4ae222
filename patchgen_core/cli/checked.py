"""What the gate's checks of the drift and of contracts come to in a project."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchgen_core.build.results import DriftReport
    from patchgen_core.checks.baseline_use import BaselineUse
    from patchgen_core.checks.result import CheckResult


@dataclass(frozen=True)
class Checked:
    """What was found in one project; ``completed`` are files whose imports for type checkers were written."""

    report: DriftReport
    contracts: tuple[CheckResult, ...] = ()
    baselines: tuple[BaselineUse, ...] = ()
    completed: tuple[Path, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 where there is a finding, else 0."""
        return max(self.report.exit_code, int(any(result.is_bad for result in self.contracts)))
