"""What GitHub Actions shows of a run: annotations at the configs' lines, and a summary of the job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from patchgen_core.errors import Location, PatchgenError
from patchgen_core.report.gate import GateReport, gate_markdown
from patchgen_core.report.record import BAD, Record


def is_github(environment: Mapping[str, str]) -> bool:
    """Whether this is a job of GitHub Actions."""
    return environment.get("GITHUB_ACTIONS") == "true"


def commands(report: GateReport, workspace: Path) -> Iterator[str]:
    """A workflow command for each thing found; GitHub shows it at the line it names.

    Source of the format: docs.github.com, "Workflow commands for GitHub Actions".
    """
    for record in report.records:
        title = f"patchgen {record.check}: {record.config}"
        if record.status in BAD:
            for file, line, message in _found(record):
                yield _command("error", file, line, title, message, workspace)
        for problem in record.warnings:
            where = problem.location
            yield _command(
                "warning",
                where.file if where else record.path,
                where.line if where else record.line,
                title,
                "\n".join(filter(None, [problem.title, problem.hint])),
                workspace,
            )


def _found(record: Record) -> Iterator[tuple[str, int, str]]:
    if record.reason and not record.causes and not record.errors:
        yield record.path, record.line, record.headline
    for cause in record.causes:
        yield record.path, record.line, str(cause)
    for problem in record.errors:
        where = problem.location
        message = "\n".join(filter(None, [problem.title, problem.hint]))
        yield (where.file, where.line, message) if where else (record.path, record.line, message)


def _command(kind: str, file: str, line: int, title: str, message: str, workspace: Path) -> str:
    path = Path(file)
    shown = path.relative_to(workspace).as_posix() if path.is_relative_to(workspace) else file
    place = f"file={_property(shown)}" + (f",line={line}" if line else "")
    return f"::{kind} {place},title={_property(title)}::{_data(message)}"


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
        try:
            with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(f"{gate_markdown(report)}\n")
        except OSError as error:
            raise PatchgenError(f"cannot be written: {error.strerror}", Location(path)) from None
