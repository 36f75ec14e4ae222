"""What ``patchgen --check`` found out, as JSON types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patchgen_core.build.results import DriftReport
from patchgen_core.checks.result import CheckResult, drift_result
from patchgen_core.errors import display_path
from patchgen_core.report.data import SCHEMA, problem_data


def drift_data(report: DriftReport, contracts: Sequence[CheckResult] = ()) -> dict[str, Any]:
    """A drift report as JSON types. Paths are relative to the working directory where they can be.

    Args:
        report: the report.
        contracts: what the contract rules found out, where they ran.
    """
    contract_data = {(record.config, record.path): {"contract": _contract_data(record)} for record in contracts}
    is_red = any(record.is_bad for record in contracts)
    return {
        "schema": SCHEMA,
        "exit_code": max(report.exit_code, int(is_red)),
        "configs": [
            {
                "config": record.config,
                "path": display_path(record.path),
                **_check_data(record),
                **contract_data.get((record.config, record.path), {}),
            }
            for record in map(drift_result, report.results)
        ],
        "orphans": [display_path(path) for path in report.orphans],
        "removed": [display_path(path) for path in report.removed],
    }


def _check_data(record: CheckResult) -> dict[str, Any]:
    """What a check found out, as JSON types."""
    return {
        "status": record.status,
        "causes": [
            {"kind": cause.kind, "detail": cause.detail, "upstream_diff": cause.upstream_diff or None}
            for cause in record.causes
        ],
        "files": [
            {"path": display_path(file.path), "missing": file.missing, "diff": file.diff} for file in record.files
        ],
        "loading": record.loading or None,
        "loading_reason": record.loading_reason or None,
        "errors": problem_data(record.errors),
        "warnings": problem_data(record.warnings),
    }


def _contract_data(record: CheckResult) -> dict[str, Any]:
    return {
        "status": record.status,
        "reason": record.reason or None,
        "errors": problem_data(record.errors),
        "warnings": problem_data(record.warnings),
        "notes": list(record.notes),
    }
