"""Problems as JSON types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from patchgen_core.errors import Problem, Snippet, display_path

SCHEMA = 1
"""The number of the form that all reports as JSON have."""


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
