"""Reports as HTML files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen_core.errors import display_path
from patchgen_core.files import write_files
from patchgen_core.report.html.page import Page, render

if TYPE_CHECKING:
    from patchgen_core.build.results import DriftReport
    from patchgen_core.checks.result import CheckResult
    from patchgen_core.report.gate import GateReport
    from patchgen_core.upgrade.results import MatrixReport, UpgradeReport


def write_gate(report: GateReport, path: Path, root: Path) -> None:
    """Write what a run of the gate found out.

    Args:
        report: the report.
        path: the file; its folder is made.
        root: paths below it are shown from there.

    Raises:
        PatchgenError: the file cannot be written.
    """
    from patchgen_core.checks.result import relative_to, retitled, with_paths
    from patchgen_core.report.html.gate_page import gate_page, shown_below

    change = relative_to(root)
    records = tuple(retitled(with_paths(record, change)) for record in report.records)
    _write(gate_page(replace(report, records=records), shown_below(root)), path)


def write_drift(report: DriftReport, contracts: Sequence[CheckResult], path: Path) -> None:
    """Write what ``patchgen --check`` found out.

    Args:
        report: the report.
        contracts: what the contract rules found out, where they ran.
        path: the file; its folder is made.

    Raises:
        PatchgenError: the file cannot be written.
    """
    from patchgen_core.checks.result import drift_result, retitled
    from patchgen_core.report.gate import GateReport
    from patchgen_core.report.html.gate_page import gate_page

    records = [retitled(drift_result(result)) for result in report.results]
    records += [*contracts, *_orphans(report)]
    _write(gate_page(GateReport(tuple(records)), display_path, "check"), path)


def write_upgrade(report: UpgradeReport, path: Path) -> None:
    """Write what a new release does to a project.

    Args:
        report: the report.
        path: the file; its folder is made.

    Raises:
        PatchgenError: the file cannot be written.
    """
    from patchgen_core.report.html.upgrade_page import upgrade_page

    _write(upgrade_page(report, display_path), path)


def write_matrix(report: MatrixReport, path: Path) -> None:
    """Write what several releases are to a project.

    Args:
        report: the report.
        path: the file; its folder is made.

    Raises:
        PatchgenError: the file cannot be written.
    """
    from patchgen_core.report.html.matrix_page import matrix_page

    _write(matrix_page(report, display_path), path)


def _write(page: Page, path: Path) -> None:
    write_files([(path, render(page))])


def _orphans(report: DriftReport) -> list[CheckResult]:
    """A record of the generated files that no config makes; none where there are none."""
    from patchgen_core.build.results import Cause
    from patchgen_core.checks.result import CheckResult

    if not (report.orphans or report.removed):
        return []
    causes = tuple(Cause("orphan", f"{display_path(path)}: no config makes it any more") for path in report.orphans)
    removed = tuple(map(str, report.removed))
    return [CheckResult("orphans", "", 0, "orphans", "failed" if causes else "fixed", causes, removed=removed)]
