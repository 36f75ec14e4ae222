"""From what a check found to its verdict, by the severities and the baseline of the project."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from patchgen_core.checks.baseline import hold_back
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import CONTRACT
from patchgen_core.checks.severity import find_level
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.project.project import Project
from patchgen_core.project.severity_settings import ERROR, OFF


def judge_results(results: Iterable[CheckResult], item: str, session: Session) -> tuple[CheckResult, ...]:
    """The results of an item as the settings of their projects have them."""
    return tuple(_judge(result, item, session) for result in results)


def _judge(result: CheckResult, item: str, session: Session) -> CheckResult:
    try:
        project = session.project(Path(result.path))
    except PatchgenError:  # the result says so itself
        return result
    if project.severity and result.check != CONTRACT:  # which weighs its findings itself
        result = _weigh(result, project)
    baseline = session.baseline(project)
    return result if baseline is None else hold_back(result, item, baseline)


def _weigh(result: CheckResult, project: Project) -> CheckResult:
    if result.status not in ("failed", "clean"):
        return result
    errors, warnings, left_out = list[Problem](), list[Problem](), list[Problem]()
    for own, problems in ((errors, result.errors), (warnings, result.warnings)):
        for problem in problems:
            level = find_level(project, Path(result.path), result.config, problem.code, result.check)
            kinds = {"": own, ERROR: errors, OFF: left_out}
            kinds.get(level, warnings).append(problem)
    is_failed = bool(errors or (result.status == "failed" and result.causes))
    notes = tuple(f"off in [tool.patchgen.severity]: {problem.title}" for problem in left_out)
    return replace(
        result,
        status="failed" if is_failed else "clean",
        errors=tuple(errors),
        warnings=tuple(warnings),
        notes=(*result.notes, *notes),
        tables=result.tables if is_failed else (),
    )
