"""What ``patchgen --check`` found out, as JSON types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patchgen_core.build.results import DriftReport
from patchgen_core.checks.result import CheckResult, drift_result
from patchgen_core.errors import display_path
from patchgen_core.report.data import SCHEMA, problem_data


def drift_data(report: DriftReport, contracts: Sequence[CheckResult] = ()) -> dict[str, Any]:
    """A report as JSON types, with what the contract rules found where they ran; paths as they are shown."""
    contract_data = {(result.config, result.path): {"contract": _contract_data(result)} for result in contracts}
    is_red = any(result.is_bad for result in contracts)
    return {
        "schema": SCHEMA,
        "exit_code": max(report.exit_code, int(is_red)),
        "configs": [
            {
                "config": result.config,
                "path": display_path(result.path),
                **_check_data(result),
                **contract_data.get((result.config, result.path), {}),
            }
            for result in map(drift_result, report.results)
        ],
        "orphans": [display_path(path) for path in report.orphans],
        "removed": [display_path(path) for path in report.removed],
    }


def _check_data(result: CheckResult) -> dict[str, Any]:
    return {
        "status": result.status,
        "causes": [
            {"kind": cause.kind, "detail": cause.detail, "upstream_diff": cause.upstream_diff or None}
            for cause in result.causes
        ],
        "files": [
            {"path": display_path(file.path), "missing": file.missing, "diff": file.diff} for file in result.files
        ],
        "copies": [display_path(path) for path in result.copies],
        "loading": result.loading or None,
        "loading_reason": result.loading_reason or None,
        "errors": problem_data(result.errors),
        "warnings": problem_data(result.warnings),
    }


def _contract_data(result: CheckResult) -> dict[str, Any]:
    return {
        "status": result.status,
        "reason": result.reason or None,
        "errors": problem_data(result.errors),
        "warnings": problem_data(result.warnings),
        "notes": list(result.notes),
        "held": problem_data(result.held),
    }
