"""Records of a gate's results."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console

from patchgen_core.checks.result import (
    CheckResult,
    Status,
)
from patchgen_core.report.gate.report import GateReport
from patchgen_core.report.gate.terminal import print_gate

STATUSES: tuple[Status, ...] = ("clean", "skipped", "fixed", "failed", "drifted", "error")
DIFF = "--- a.py\n+++ b.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"


def record(config: str = "toy", check: str = "drift", status: Status = "clean", **more: Any) -> CheckResult:
    path = more.pop("path", f"/project/{config}.py")
    return CheckResult(config, path, 1, check, status, item=f"{Path(path).name}::{check}", **more)


def shown(report: GateReport, width: int = 120, verbose: bool = False) -> list[list[str]]:
    """The cells of the table's rows as they stand on a screen."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as capture:
        print_gate(console, report, verbose)
    rows = capture.get().splitlines()
    assert all(cell_len(row) <= width for row in rows)
    return [[cell.strip() for cell in row.rstrip().split("  ") if cell.strip()] for row in rows]
