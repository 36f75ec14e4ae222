"""A run of the gate as SARIF, for code scanning and editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from patchgen_core.build.results import Cause
from patchgen_core.checks.result import CheckResult
from patchgen_core.errors import Location, Problem, Snippet
from patchgen_core.report.gate.formats import write_report
from patchgen_core.report.gate.report import GateReport
from patchgen_core.report.gate.sarif import gate_sarif
from tests.report.gate_records import record


def run_of(*results: CheckResult, root: str = "/project", **more: Any) -> dict[str, Any]:
    data = json.loads(gate_sarif(GateReport(results, **more), Path(root)))
    assert data["version"] == "2.1.0"
    (run,) = data["runs"]
    assert isinstance(run, dict)
    return run


def test_a_finding_of_a_rule_stands_at_the_configs_line_with_the_rule_explained() -> None:
    seen = Snippet(Location("/project/generated/toy.py", 31), "> 31 | x")
    problem = Problem("misfit", Location("/project/a b.py", 9), "mend it", "> 9 | x", "PG202", seen)
    run = run_of(record(check="contract", status="failed", errors=(problem,), warnings=(problem,)))
    first, second = run["results"]
    assert (first["ruleId"], first["level"], second["level"]) == ("PG202", "error", "warning")
    assert first["message"]["text"] == "misfit\nmend it"
    place = {"artifactLocation": {"uri": "a%20b.py"}, "region": {"startLine": 9}}
    assert first["locations"] == [{"physicalLocation": place}]
    assert first["relatedLocations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "generated/toy.py"
    (rule,) = run["tool"]["driver"]["rules"]
    assert rule["id"] == "PG202"
    assert rule["defaultConfiguration"]["level"] == "error"
    assert len(rule["fullDescription"]["text"]) > 100


def test_what_is_no_rules_has_the_check_for_a_rule() -> None:
    causes = (Cause("upstream moved", "Norm changed"), Cause("missing"))
    crash = record("b", "parity", "failed", reason="the process ended", path="/elsewhere/b.py")
    run = run_of(record(status="drifted", causes=causes), crash, record("c"))
    assert [(one["ruleId"], one["message"]["text"]) for one in run["results"]] == [
        ("drift", "upstream moved: Norm changed"),
        ("drift", "missing"),
        ("parity", "the process ended"),
    ]
    rules = run["tool"]["driver"]["rules"]
    assert [rules[one["ruleIndex"]]["id"] for one in run["results"]] == ["drift", "drift", "parity"]
    assert run["results"][2]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "file:///elsewhere/b.py"
    assert run["results"][0]["properties"] == {"config": "toy", "item": "drift"}


def test_a_run_says_how_it_ended() -> None:
    assert run_of(record())["invocations"] == [{"executionSuccessful": True, "exitCode": 0}]
    assert run_of(record(), not_run=("b.py::drift",))["invocations"] == [{"executionSuccessful": False, "exitCode": 1}]


def test_a_report_file_can_be_one(tmp_path: Path) -> None:
    report = GateReport((record(status="drifted", causes=(Cause("missing"),)),))
    write_report(report, tmp_path / "gate.sarif", Path("/project"))
    assert (tmp_path / "gate.sarif").read_text() == gate_sarif(report, Path("/project"))
