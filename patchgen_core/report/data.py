"""Results as plain data, for ``--json`` and report files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from patchgen_core.build.results import DriftReport
from patchgen_core.checks.result import BAD, CheckResult, drift_result
from patchgen_core.errors import Problem, Snippet, display_path

SCHEMA = 1


def drift_data(report: DriftReport, contracts: Sequence[CheckResult] = ()) -> dict[str, Any]:
    """A drift report as JSON types. Paths are relative to the working directory where they can be.

    Args:
        report: the report.
        contracts: what the contract rules found out, where they ran.
    """
    kept = {(record.config, record.path): {"contract": _contract_data(record)} for record in contracts}
    is_red = any(record.status in BAD for record in contracts)
    return {
        "schema": SCHEMA,
        "exit_code": max(report.exit_code, int(is_red)),
        "configs": [
            {
                "config": record.config,
                "path": display_path(record.path),
                **check_data(record),
                **kept.get((record.config, record.path), {}),
            }
            for record in map(drift_result, report.results)
        ],
        "orphans": [display_path(path) for path in report.orphans],
        "removed": [display_path(path) for path in report.removed],
    }


def check_data(record: CheckResult) -> dict[str, Any]:
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


def problem_data(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    """Problems or warnings as JSON types."""
    return [
        {
            "file": display_path(problem.location.file) if problem.location else None,
            "line": problem.location.line if problem.location else None,
            "message": problem.message,
            "hint": problem.hint or None,
            "excerpt": problem.excerpt or None,
            "code": problem.code or None,
            "generated": _snippet_data(problem.generated),
        }
        for problem in problems
    ]


def _snippet_data(snippet: Snippet | None) -> dict[str, Any] | None:
    if snippet is None:
        return None
    location = snippet.location
    return {"file": display_path(location.file), "line": location.line, "excerpt": snippet.text}


def error_data(problems: Iterable[Problem]) -> dict[str, Any]:
    """A run that could not start, as JSON types."""
    return {"schema": SCHEMA, "exit_code": 2, "errors": problem_data(problems)}
