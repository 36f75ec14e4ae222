"""What a run tells GitHub Actions: workflow commands and the summary of the job."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest

from patchgen_core.build.results import Cause
from patchgen_core.checks.result import CheckResult, FileDifference, Status
from patchgen_core.errors import Location, Problem, Snippet
from patchgen_core.report.gate.github import is_github, workflow_commands, write_step_summary
from patchgen_core.report.gate.markdown import gate_markdown
from patchgen_core.report.gate.report import GateReport

WORKSPACE = Path("/runner/work")


def record(
    status: Status = "drifted", path: str = "/runner/work/models/toy.py", line: int = 4, **more: object
) -> CheckResult:
    return CheckResult("toy", path, line, "drift", status, **more)  # type: ignore[arg-type]


def told(*records: CheckResult) -> list[str]:
    return list(workflow_commands(GateReport(records), WORKSPACE))


def test_each_cause_is_an_error_at_the_config() -> None:
    causes = (Cause("upstream moved", "Norm changed"), Cause("missing"))
    assert told(record(causes=causes), record("clean"), record("fixed", causes=causes)) == [
        "::error file=models/toy.py,line=4,title=patchgen drift%3A toy::upstream moved: Norm changed",
        "::error file=models/toy.py,line=4,title=patchgen drift%3A toy::missing",
    ]


def test_problem_is_told_where_it_was_declared() -> None:
    located = Problem("wrong", Location("/runner/work/models/helper.py", 9), "mend it", "> 9 | x")
    assert told(record("error", errors=(located, Problem("all wrong")))) == [
        "::error file=models/helper.py,line=9,title=patchgen drift%3A toy::wrong%0Amend it",
        "::error file=models/toy.py,line=4,title=patchgen drift%3A toy::all wrong",
    ]


def test_finding_is_told_at_the_config_with_its_code_and_its_place_in_the_generated_file() -> None:
    snippet = Snippet(Location("/runner/work/models/generated/toy.py", 31), "> 31 | x")
    location = Location("/runner/work/models/toy.py", 9)
    finding = Problem("misfit", location, "mend it", "> 9 | x", "PG202", snippet)
    message = "PG202 misfit%0Ain models/generated/toy.py, line 31%0Amend it"
    assert told(record("failed", errors=(finding,), warnings=(finding,))) == [
        f"::error file=models/toy.py,line=9,title=patchgen drift%3A toy::{message}",
        f"::warning file=models/toy.py,line=9,title=patchgen drift%3A toy::{message}",
    ]


@pytest.mark.parametrize("status", ["clean", "drifted", "fixed"])
def test_warnings_are_told_whatever_the_verdict(status: Status) -> None:
    warning = Problem("mind this", Location("/runner/work/models/toy.py", 7), "or not")
    assert told(record(status, warnings=(warning,))) == [
        "::warning file=models/toy.py,line=7,title=patchgen drift%3A toy::mind this%0Aor not"
    ]


def test_file_outside_of_the_workspace_and_line_that_is_not_known() -> None:
    (command,) = told(record(path="/elsewhere/a.py", line=0, causes=(Cause("missing"),)))
    assert command == "::error file=/elsewhere/a.py,title=patchgen drift%3A toy::missing"


def test_nothing_in_a_message_or_name_ends_its_command() -> None:
    text = "100%: a, b::c\r\n::error::other%0A"
    path = "/runner/work/a,b: 5%.py"
    (command,) = told(record(path=path, causes=(Cause("edited by hand", text),)))
    assert command.splitlines() == [command]
    properties, _, data = command.removeprefix("::error ").partition("::")
    values = dict(entry.split("=") for entry in properties.split(","))
    assert values == {"file": "a%2Cb%3A 5%25.py", "line": "4", "title": "patchgen drift%3A toy"}
    assert data == "edited by hand: 100%25: a, b::c%0D%0A::error::other%250A"
    assert unquote(data) == f"edited by hand: {text}"


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("false", False), ("", False), (None, False)])
def test_a_job_is_known_by_its_environment(value: str | None, expected: bool) -> None:
    assert is_github({"CI": "true"} if value is None else {"GITHUB_ACTIONS": value}) == expected


def test_summary_is_added_to_what_other_steps_wrote(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    path.write_text("# Another step\n")
    reports = [GateReport((record(causes=(Cause("missing"),)),)), GateReport((record("clean"),))]
    for report in reports:
        write_step_summary(report, {"GITHUB_STEP_SUMMARY": str(path)})
    text = path.read_text(encoding="utf-8")
    assert text.startswith(f"# Another step\n{gate_markdown(reports[0])}\n{gate_markdown(reports[1])}")
    write_step_summary(reports[0], {"GITHUB_STEP_SUMMARY": ""})
    write_step_summary(reports[0], {})
    assert path.read_text(encoding="utf-8") == text


def test_summary_of_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    diff = "--- a.py\n+++ b.py\n@@ -1 +1 @@\n-x = '\udce9'\n+x = 'é'\n"
    report = GateReport((record(files=(FileDifference("/runner/work/a.py", False, diff, diff),)),))
    write_step_summary(report, {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")})
    assert "+x = 'é'\n".encode() in (tmp_path / "summary.md").read_bytes()
