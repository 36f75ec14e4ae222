"""Results as plain data, for ``--json`` and report files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from patchgen_core.drift import DriftReport
from patchgen_core.errors import Problem, display_path
from patchgen_core.report.record import Record, drift_record

SCHEMA = 1


def drift_data(report: DriftReport) -> dict[str, Any]:
    """A drift report as JSON types. Paths are relative to the working directory where they can be."""
    records = map(drift_record, report.results)
    return {
        "schema": SCHEMA,
        "exit_code": report.exit_code,
        "configs": [
            {"config": record.config, "path": display_path(record.path), **check_data(record)} for record in records
        ],
        "orphans": [display_path(path) for path in report.orphans],
        "removed": [display_path(path) for path in report.removed],
    }


def check_data(record: Record) -> dict[str, Any]:
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


def problem_data(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    """Problems or warnings as JSON types."""
    return [
        {
            "file": display_path(problem.location.file) if problem.location else None,
            "line": problem.location.line if problem.location else None,
            "message": problem.message,
            "hint": problem.hint or None,
            "excerpt": problem.excerpt or None,
        }
        for problem in problems
    ]


def error_data(problems: Iterable[Problem]) -> dict[str, Any]:
    """A run that could not start, as JSON types."""
    return {"schema": SCHEMA, "exit_code": 2, "errors": problem_data(problems)}
