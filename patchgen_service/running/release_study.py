"""What a release of transformers does to the patches of a project, beside whether they pass the gate."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from patchgen_service.environments import PythonEnvironment
from patchgen_service.isolation.box import Box, Kind, Limits
from patchgen_service.isolation.process import run_command
from patchgen_service.running.events import Event, FileArrived, ResultArrived, Tell
from patchgen_service.running.gate import Checkout, make_box, path_in_repository
from patchgen_service.running.upstream_changes import add_history, describe_change
from patchgen_service.views.patch_debt import STUDY_NAME

_NEEDLESS, _MUST_CHANGE, _NO_EFFECT = "now upstream", "must change", "PG214"


class NoEffects:
    """Takes what a run tells, hands it on, and notes the patches that the gate finds to be upstream's own code."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._patches: dict[str, list[dict[str, Any]]] = {}

    def take(self, event: Event) -> None:
        """Hand it on."""
        if isinstance(event, ResultArrived):
            warnings = [each for each in event.result["warnings"] if each["code"] == _NO_EFFECT and each["location"]]
            self._patches.setdefault(event.project, []).extend(
                {
                    "config": event.result["config"],
                    "target": warning["target"],
                    "path": warning["location"]["file"],
                    "line": warning["location"]["line"],
                    "reason": warning["message"],
                }
                for warning in warnings
            )
        self._tell(event)

    def of_project(self, project: str) -> list[dict[str, Any]]:
        """Those of a project."""
        return self._patches.get(project, [])


def study_release(
    run: str,
    project: str,
    version: str,
    checkout: Checkout,
    environment: PythonEnvironment,
    kind: Kind,
    limits: Limits,
    no_effects: list[dict[str, Any]],
    should_stop: Callable[[], bool],
    hidden: tuple[Path, ...] = (),
    history: Path | None = None,
) -> FileArrived | None:
    """The file that says which patches upstream made needless and what it changed; None where that cannot be told.

    The release is the one that the environment has, and upstream as it was before is in the generated files: nothing
    is downloaded. What changed names upstream's pull request where a clone of transformers has the releases.
    """
    command = [str(environment.python), "-m", "patchgen_core", "upgrade", "--to", version, "--offline", "--json"]
    box = make_box(project, checkout, environment, kind, limits, hidden)
    try:
        with_history = add_history(box, command, history)
        report = _read_report(kind, *with_history, should_stop) if with_history is not None else {}
        if "configs" not in report:  # nor does it where the clone lacks a release
            report = _read_report(kind, box, command, should_stop)
        configs = report["configs"]
        needless = [entry for config in configs for entry in _find_needless(project, config)]
        changes = [entry for config in configs for entry in _find_changes(project, config)]
        notes = [note for config in configs for note in config["notes"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    known = {(entry["path"], entry["line"]) for entry in needless}
    needless += [entry for entry in no_effects if (entry["path"], entry["line"]) not in known]
    content = json.dumps({"version": version, "needless": needless, "changes": changes, "notes": notes}).encode()
    return FileArrived(run, "report", f"{project}/{STUDY_NAME}", content)


def _read_report(kind: Kind, box: Box, command: list[str], should_stop: Callable[[], bool]) -> dict[str, Any]:
    lines: list[bytes] = []
    run_command(kind, box, command, lines.append, should_stop)
    report: dict[str, Any] = json.loads(b"\n".join(lines) or b"{}")
    return report


def _find_needless(project: str, config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The patches of a config that the release does by itself."""
    for patch in config["patches"]:
        if patch["verdict"] == _NEEDLESS:
            details = [finding["detail"] for finding in patch["findings"] if finding["kind"] == _NEEDLESS]
            yield {
                "config": config["config"],
                "target": patch["target"],
                "path": path_in_repository(project, patch["file"]),
                "line": patch["line"],
                "reason": next(filter(None, details), "upstream does what the patch does: delete the patch"),
            }


def _find_changes(project: str, config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What of upstream has changed so that a config must."""
    findings = [finding for patch in config["patches"] for finding in patch["findings"]]
    for finding in (*findings, *config["findings"]):
        if finding["risk"] == _MUST_CHANGE:
            texts = {name: finding[name] or "" for name in ("kind", "about", "detail")}
            for commit in finding.get("commits", [])[:1]:
                change = describe_change(commit["subject"], commit["pull_request"])
                texts["detail"] = f"{texts['detail']} ({change})" if texts["detail"] else change
            yield {"config": config["config"], "path": path_in_repository(project, config["path"]), **texts}
