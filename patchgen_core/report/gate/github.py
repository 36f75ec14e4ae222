"""What GitHub Actions shows of a run: annotations at the configs' lines, and a summary of the job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from patchgen_core.checks.result import BAD, CheckResult
from patchgen_core.errors import Location, PatchgenError, Problem
from patchgen_core.report.gate.report import GateReport


def is_github(environment: Mapping[str, str]) -> bool:
    """Whether this is a job of GitHub Actions."""
    return environment.get("GITHUB_ACTIONS") == "true"


def commands(report: GateReport, workspace: Path) -> Iterator[str]:
    """A workflow command for each thing found; GitHub shows it at the line it names.

    Source of the format: docs.github.com, "Workflow commands for GitHub Actions".
    """
    for result in report.results:
        title = f"patchgen {result.name}: {result.config}"
        found = [("error", *entry) for entry in _found(result, workspace)] if result.status in BAD else []
        found += [("warning", *_told(result, problem, workspace)) for problem in result.warnings]
        for kind, file, line, message in found:
            place = f"file={_property(_shown(file, workspace))}" + (f",line={line}" if line else "")
            yield f"::{kind} {place},title={_property(title)}::{_data(message)}"


def _found(result: CheckResult, workspace: Path) -> Iterator[tuple[str, int, str]]:
    if result.reason and not result.causes and not result.errors:
        yield result.path, result.line, result.headline
    for cause in result.causes:
        yield result.path, result.line, str(cause)
    for problem in result.errors:
        yield _told(result, problem, workspace)


def _told(result: CheckResult, problem: Problem, workspace: Path) -> tuple[str, int, str]:
    """The file and the line to show a problem at, and what to say there."""
    where = problem.location or Location(result.path, result.line)
    lines = [problem.title, problem.hint]
    if problem.generated is not None:
        generated = problem.generated.location
        lines.insert(1, f"in {_shown(generated.file, workspace)}, line {generated.line}")
    return where.file, where.line, "\n".join(filter(None, lines))


def _shown(file: str, workspace: Path) -> str:
    path = Path(file)
    return path.relative_to(workspace).as_posix() if path.is_relative_to(workspace) else file


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def write_step_summary(report: GateReport, environment: Mapping[str, str]) -> None:
    """Add the report to the job's summary, where there is one.

    Raises:
        PatchgenError: it cannot be written.
    """
    path = environment.get("GITHUB_STEP_SUMMARY")
    if path:
        from patchgen_core.report.gate.markdown import gate_markdown

        try:
            with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(f"{gate_markdown(report, is_whole=False)}\n")
        except OSError as error:
            raise PatchgenError(f"cannot be written: {error.strerror}", Location(path)) from None
