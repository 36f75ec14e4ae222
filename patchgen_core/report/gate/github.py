"""What GitHub Actions shows of a run: annotations at the configs' lines, and a summary of the job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from patchgen_core.checks.result import BAD, CheckResult, relative_to, with_paths
from patchgen_core.errors import Location, PatchgenError, Problem
from patchgen_core.report.gate.report import GateReport


def is_github(environment: Mapping[str, str]) -> bool:
    """Whether this is a job of GitHub Actions."""
    return environment.get("GITHUB_ACTIONS") == "true"


def workflow_commands(report: GateReport, workspace: Path) -> Iterator[str]:
    """A workflow command for each thing found; GitHub shows it at the line it names.

    Source of the format: docs.github.com, "Workflow commands for GitHub Actions".
    """
    for result in report.results:
        result = with_paths(result, relative_to(workspace))
        title = _escape_property(f"patchgen {result.name}: {result.config}")
        messages = [("error", *message) for message in _error_messages(result)] if result.status in BAD else []
        messages += [("warning", *_problem_message(result, problem)) for problem in result.warnings]
        for kind, at, message in messages:
            place = f"file={_escape_property(at.file)}" + (f",line={at.line}" if at.line else "")
            yield f"::{kind} {place},title={title}::{_escape(message)}"


def _error_messages(result: CheckResult) -> Iterator[tuple[Location, str]]:
    at = Location(result.path, result.line)
    if result.reason and not result.causes and not result.errors:
        yield at, result.headline
    yield from ((at, str(cause)) for cause in result.causes)
    yield from (_problem_message(result, problem) for problem in result.errors)


def _problem_message(result: CheckResult, problem: Problem) -> tuple[Location, str]:
    lines = [problem.title, problem.hint]
    if problem.generated is not None:
        generated = problem.generated.location
        lines.insert(1, f"in {generated.file}, line {generated.line}")
    return problem.location or Location(result.path, result.line), "\n".join(filter(None, lines))


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")


def write_step_summary(report: GateReport, environment: Mapping[str, str]) -> None:
    """Add the report to the job's summary, where there is one; a PatchgenError where it cannot be written."""
    path = environment.get("GITHUB_STEP_SUMMARY")
    if path:
        from patchgen_core.report.gate.markdown import gate_markdown

        try:
            with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(f"{gate_markdown(report, is_whole=False)}\n")
        except OSError as error:
            raise PatchgenError(f"cannot be written: {error.strerror}", Location(path)) from None
