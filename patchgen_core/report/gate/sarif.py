"""A run of the gate as SARIF 2.1.0, which code scanning of forges and editors read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from patchgen_core.checks.contract.run import EVERY_RULE
from patchgen_core.checks.registry import all_checks
from patchgen_core.checks.result import relative_to
from patchgen_core.errors import Location
from patchgen_core.report.gate.findings import Finding, list_findings
from patchgen_core.report.gate.report import GateReport

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def gate_sarif(report: GateReport, root: Path) -> str:
    """The errors and warnings of a report; paths below ``root`` are relative to it.

    Source of the format: docs.oasis-open.org, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0".
    """
    findings = list(list_findings(report, relative_to(root)))
    rules = sorted({finding.rule for finding in findings})
    driver = {
        "name": "patchgen",
        "version": version("pytest-patchgen"),
        "rules": [_rule_data(rule) for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": not report.not_run, "exitCode": report.exit_code}],
        "results": [_finding_data(finding, rules.index(finding.rule)) for finding in findings],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule_data(code: str) -> dict[str, Any]:
    """What is said of a rule; of a check, where a finding is no rule's."""
    for rule in EVERY_RULE:
        if rule.code == code:
            return {
                "id": code,
                "name": rule.name,
                "shortDescription": {"text": rule.name},
                "fullDescription": {"text": rule.reason},
                "defaultConfiguration": {"level": rule.severity},
            }
    meanings = {check.name: check.meaning for check in all_checks()}
    return {"id": code, "shortDescription": {"text": meanings.get(code, code)}}


def _finding_data(finding: Finding, rule: int) -> dict[str, Any]:
    data = {
        "ruleId": finding.rule,
        "ruleIndex": rule,
        "level": finding.level,
        "message": {"text": "\n".join(filter(None, [finding.message, finding.hint]))},
        "locations": _places([finding.at]),
        "properties": {"config": finding.result.config, "item": finding.result.name},
    }
    if finding.generated is not None:
        text = {"message": {"text": "in the generated module"}}
        data["relatedLocations"] = [place | text for place in _places([finding.generated])]
    return data


def _places(locations: Iterable[Location]) -> list[dict[str, Any]]:
    places: list[dict[str, Any]] = []
    for at in locations:
        path = Path(at.file)
        place: dict[str, Any] = {"artifactLocation": {"uri": path.as_uri() if path.is_absolute() else _quote(at.file)}}
        if at.line:
            place["region"] = {"startLine": at.line}
        places.append({"physicalLocation": place})
    return places


def _quote(path: str) -> str:
    from urllib.parse import quote

    return quote(path)
