"""Results as plain data, for ``--json``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from patchgen_core.drift import ConfigResult, DriftReport
from patchgen_core.errors import Problem, display_path

SCHEMA = 1


def drift_data(report: DriftReport) -> dict[str, Any]:
    """A drift report as JSON types. Paths are relative to the working directory where they can be."""
    return {
        "schema": SCHEMA,
        "exit_code": report.exit_code,
        "configs": [_result(result) for result in report.results],
        "orphans": [display_path(path) for path in report.orphans],
        "removed": [display_path(path) for path in report.removed],
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


def _result(result: ConfigResult) -> dict[str, Any]:
    outcome = result.outcome
    return {
        "config": outcome.label,
        "path": display_path(outcome.path),
        "status": result.status,
        "causes": [
            {"kind": cause.kind, "detail": cause.detail, "upstream_diff": cause.upstream_diff or None}
            for cause in result.causes
        ],
        "files": [
            {"path": display_path(file.path), "missing": file.old is None, "diff": file.diff} for file in result.files
        ],
        "loading": outcome.loaded.mode if outcome.loaded else None,
        "loading_reason": (outcome.loaded.reason or None) if outcome.loaded else None,
        "errors": problem_data(outcome.problems),
        "warnings": problem_data(outcome.warnings),
    }
