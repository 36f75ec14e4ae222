"""What another release of upstream does to a project, as plain data for ``--json``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from patchgen_core.errors import display_path
from patchgen_core.report.data import SCHEMA, problem_data
from patchgen_core.report.upgrade.texts import conflict_location
from patchgen_core.upgrade.results import ConfigVerdict, Finding, PatchVerdict, Rebase, UpgradeReport
from patchgen_core.upgrade.writing.applying import Applied
from patchgen_core.upgrade.writing.gating import GateRun, verdict_line
from patchgen_core.upstream.versions import ascending


def upgrade_data(report: UpgradeReport) -> dict[str, Any]:
    """A report as JSON types. Paths are relative to the working directory where they can be."""
    return {
        "schema": SCHEMA,
        "exit_code": report.exit_code,
        "distribution": report.distribution,
        "old": list(ascending(config.old for config in report.configs)),
        "version": report.new,
        "origin": report.origin,
        "configs": [_config(config) for config in report.configs],
        "skipped": list(report.skipped),
        "errors": problem_data(report.failed),
    }


def _config(config: ConfigVerdict) -> dict[str, Any]:
    return {
        "config": config.config,
        "path": display_path(config.path),
        "line": config.line,
        "module": config.module,
        "old": config.old or None,
        "new": config.new,
        "origin": config.origin,
        "risk": config.risk,
        "patches": [_patch(patch) for patch in config.patches],
        "findings": [_finding(finding) for finding in config.findings],
        "errors": problem_data(config.problems),
        "notes": list(config.notes),
    }


def _patch(patch: PatchVerdict) -> dict[str, Any]:
    return {
        "kind": patch.kind,
        "target": patch.target,
        "description": patch.description or None,
        "file": display_path(patch.location.file),
        "line": patch.location.line,
        "verdict": patch.verdict,
        "risk": patch.risk,
        "new_name": patch.new_name or None,
        "findings": [_finding(finding) for finding in patch.findings],
        "merge": _rebase(patch.rebase) if patch.rebase is not None else None,
        "errors": problem_data(patch.problems),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "about": finding.about,
        "relation": finding.relation,
        "detail": finding.detail or None,
        "risk": finding.risk,
        "upstream_diff": finding.diff or None,
        "commits": [asdict(commit) for commit in finding.commits],
    }


def _rebase(rebase: Rebase) -> dict[str, Any]:
    return {
        **_location_data(rebase),
        "clean": rebase.merged.is_clean,
        "how": rebase.merged.how,
        "diff": rebase.diff or None,
        "text": rebase.merged.text,
        "is_edit": rebase.is_edit,
        "arguments": [
            {
                "file": display_path(change.location.file),
                "line": change.location.line,
                "call": change.new_call,
                "name": change.name or None,
                "old": change.old,
                "new": change.new,
            }
            for change in rebase.arguments
        ],
        "imports": list(rebase.needs),
        "notes": list(rebase.merged.notes),
        "conflicts": [
            {
                "line": conflict_location(rebase, conflict).line,
                "reason": conflict.reason,
                "base": conflict.base,
                "ours": conflict.ours,
                "theirs": conflict.theirs,
            }
            for conflict in rebase.merged.conflicts
        ],
    }


def applied_data(applied: Applied, gate: GateRun | None = None) -> dict[str, Any]:
    """What was applied, and what the gate says, as JSON types."""
    return {
        "written": [display_path(path) for path in applied.written],
        "generated": [display_path(path) for path in applied.generated],
        "copies": [display_path(path) for path in applied.copies],
        "merged": [_location_data(rebase) for rebase in applied.merged if not rebase.is_deletion],
        "deleted": [_location_data(rebase) for rebase in applied.merged if rebase.is_deletion],
        "marked": [_location_data(rebase) for rebase in applied.marked],
        "left": [{**_location_data(rebase), "reason": reason} for rebase, reason in applied.left],
        "errors": problem_data(applied.problems),
        "gate": _gate_data(gate) if gate is not None else None,
    }


def _gate_data(gate: GateRun) -> dict[str, Any]:
    return {
        "exit_code": gate.exit_code,
        "is_exact": gate.is_exact,
        "lines": list(gate.lines),
        "results": [
            {"config": r.config, "check": r.name, "status": r.status, "said": verdict_line(r) or None}
            for r in gate.results
        ],
    }


def _location_data(rebase: Rebase) -> dict[str, Any]:
    return {"file": display_path(rebase.location.file), "line": rebase.location.line}
