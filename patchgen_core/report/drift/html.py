"""What ``patchgen --check`` found out, as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from patchgen_core.build.results import Cause, DriftReport
from patchgen_core.checks.result import CheckResult, drift_result, retitled
from patchgen_core.errors import display_path
from patchgen_core.report.gate.html import gate_page
from patchgen_core.report.gate.report import GateReport
from patchgen_core.report.html.page import write_page


def write_drift(report: DriftReport, contracts: Sequence[CheckResult], path: Path) -> None:
    """Write a report, and what the contract rules found where they ran, as one HTML file; makes its folder."""
    results = [retitled(drift_result(result)) for result in report.results]
    write_page(gate_page(GateReport((*results, *contracts, *_orphans(report))), "check"), path)


def _orphans(report: DriftReport) -> list[CheckResult]:
    if not (report.orphans or report.removed):
        return []
    causes = tuple(Cause("orphan", f"{display_path(path)}: no config makes it now") for path in report.orphans)
    removed = tuple(map(str, report.removed))
    return [CheckResult("orphans", "", 0, "orphans", "failed" if causes else "fixed", causes, removed=removed)]
