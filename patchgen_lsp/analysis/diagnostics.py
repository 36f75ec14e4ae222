"""What checks found out about a config file, as an editor shows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lsprotocol import types

from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.standing import Standing
from patchgen_core.errors import Location, NameHint, Problem
from patchgen_lsp.analysis.kept_findings import list_findings
from patchgen_lsp.analysis.rule_pages import find_page
from patchgen_lsp.analysis.workbench import UNSAVED, Analysis
from patchgen_lsp.places import line_range, uri_of

SOURCE = "patchgen"
DRIFT_CODE = "drift"
_ERROR, _WARNING = types.DiagnosticSeverity.Error, types.DiagnosticSeverity.Warning
_SEVERITIES = {"error": _ERROR, "warning": _WARNING, "remark": types.DiagnosticSeverity.Information}


@dataclass(frozen=True)
class Page:
    """The file that findings are shown in."""

    path: Path
    lines: list[str]
    units: str
    cache_folder: Path


def diagnose(
    page: Page, analysis: Analysis, standings: Iterable[Standing], is_unsaved: bool
) -> list[types.Diagnostic]:
    """Everything that drift and the contract rules say about a config file now, and that checks said which have run,
    each at its line."""
    diagnostics = [_of_problem(page, problem, _ERROR, 0) for problem in analysis.problems]
    for result in analysis.results:
        diagnostics += _of_result(page, result)
    line = next((result.line for result in analysis.results), 0)
    at = Location(str(page.path), line)
    for finding in list_findings(standings, at, is_unsaved):
        diagnostic = _of_problem(page, finding.problem, _SEVERITIES[finding.weight], line)
        diagnostic.data = {**(diagnostic.data or {}), "check": finding.check}
        diagnostics.append(diagnostic)
    return list({(d.range.start.line, str(d.code), d.message): d for d in diagnostics}.values())


def diagnose_problems(path: Path, problems: Iterable[Problem], text: str, units: str) -> list[types.Diagnostic]:
    """What keeps a file from being looked at."""
    page = Page(path, text.split("\n"), units, Path())
    return [_of_problem(page, problem, _ERROR, 0) for problem in problems]


def _of_result(page: Page, result: CheckResult) -> Iterator[types.Diagnostic]:
    for problem in result.errors:
        yield _of_problem(page, problem, _ERROR, result.line)
    for problem in result.warnings:
        yield _of_problem(page, problem, _WARNING, result.line)
    if result.status == "drifted":
        yield _of_drift(page, result)


def _of_drift(page: Page, result: CheckResult) -> types.Diagnostic:
    """A drift that an edit of the config causes is no more than a remark: the file is to be written yet."""
    is_edit = all(cause.kind in ("config changed", "missing") for cause in result.causes)
    severity = types.DiagnosticSeverity.Information if is_edit else _WARNING
    causes = "; ".join(map(str, result.causes))
    names = ", ".join(Path(file.path).name for file in result.files)
    message = f"{names}: not what this config makes now ({causes}). Regenerate, or run 'patchgen fix'."
    related = [
        types.DiagnosticRelatedInformation(
            _start_of(file.path), "there is no such file" if file.missing else "differs"
        )
        for file in result.files
    ]
    at = line_range(page.lines, result.line, page.units)
    return types.Diagnostic(at, message, severity, DRIFT_CODE, source=SOURCE, related_information=related)


def _of_problem(
    page: Page, problem: Problem, severity: types.DiagnosticSeverity, line_of_config: int
) -> types.Diagnostic:
    is_here = problem.location is not None and Path(problem.location.file) == page.path
    line = problem.location.line if problem.location is not None and is_here else line_of_config
    message = f"{problem.message}\n{problem.hint}" if problem.hint else problem.message
    related = []
    if problem.location is not None and not is_here:
        related.append(types.DiagnosticRelatedInformation(_place(problem.location), problem.message))
    if problem.generated is not None:
        place = _place(problem.generated.location)
        related.append(types.DiagnosticRelatedInformation(place, "in the generated module"))
    if problem.code == UNSAVED:
        severity = types.DiagnosticSeverity.Information
    rule_page = find_page(problem.code, page.cache_folder) if problem.code else None
    return types.Diagnostic(
        line_range(page.lines, line, page.units),
        message,
        severity,
        problem.code or None,
        types.CodeDescription(uri_of(rule_page)) if rule_page is not None else None,
        source=SOURCE,
        related_information=related or None,
        data=_data(problem),
    )


def _data(problem: Problem) -> dict[str, str] | None:
    """What actions need to know of a finding beside its code: editors hand it back with the finding."""
    hint = problem.hint
    about = (hint.name, hint.nearest) if isinstance(hint, NameHint) else ("", "")
    data = {"target": problem.target, "name": about[0], "nearest": about[1]}
    return {key: value for key, value in data.items() if value} or None


def _place(location: Location) -> types.Location:
    line = max(location.line - 1, 0)
    start = types.Position(line, 0)
    return types.Location(uri_of(Path(location.file).absolute()), types.Range(start, start))


def _start_of(path: str) -> types.Location:
    return _place(Location(path))
