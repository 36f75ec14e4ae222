"""What GitHub Actions shows of a run: annotations at the configs' lines, and a summary of the job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from patchgen_core.checks.result import relative_to
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.report.gate.findings import list_findings
from patchgen_core.report.gate.report import GateReport


def is_github(environment: Mapping[str, str]) -> bool:
    """Whether this is a job of GitHub Actions."""
    return environment.get("GITHUB_ACTIONS") == "true"


def find_workspace(environment: Mapping[str, str], folder: Path) -> Path:
    """The folder that a job's paths are shown from; ``folder`` outside of a job."""
    return Path(environment.get("GITHUB_WORKSPACE") or folder)


def workflow_commands(report: GateReport, workspace: Path) -> Iterator[str]:
    """A workflow command for each thing found; GitHub shows it at the line it names.

    Source of the format: docs.github.com, "Workflow commands for GitHub Actions".
    """
    for finding in list_findings(report, relative_to(workspace)):
        at, generated = finding.at, finding.generated
        place = f"file={_escape_property(at.file)}" + (f",line={at.line}" if at.line else "")
        seen = f"in {generated.file}, line {generated.line}" if generated else ""
        message = "\n".join(filter(None, [f"{finding.code} {finding.message}".lstrip(), seen, finding.hint]))
        yield f"::{finding.level} {place},title={_escape_property(finding.title)}::{_escape(message)}"


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
