"""What remains for a person to do of an upgrade, before and after it is applied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from patchgen_core.errors import Location
from patchgen_core.report.upgrade.texts import config_problems, is_applied, sort_by_risk
from patchgen_core.report.words import quantity
from patchgen_core.upgrade.results import ConfigVerdict, Finding, PatchVerdict, UpgradeReport
from patchgen_core.upgrade.writing.applying import SKIPPED, Applied

Now = Callable[[Location], Location]


_NOTHING = Applied()


def _same_place(location: Location) -> Location:
    return location


@dataclass(frozen=True)
class Step:
    """Something to do, as a sentence without its full stop, and the places where, each with what it is about."""

    what: str
    places: tuple[tuple[Location, str], ...]


_DELETE, _CHANGE, _RESOLVE, _MERGE, _CHECK, _LOOK = _STEPS = (
    "Delete these patches: upstream does the same now",
    "Change these patches: they no longer fit",
    "Resolve these: the sides are between markers",
    "Merge these by hand (--apply --markers marks the places)",
    "Check these after --apply",
    "Look at these",
)


def next_steps(report: UpgradeReport, applied: Applied = _NOTHING, now: Now = _same_place) -> list[Step]:
    """What remains for a person to do, most urgent first; each patch once, with the first step that fits it.

    ``applied`` is what is carried over already; ``now`` says where a place is since then.
    """
    left = {rebase.location: reason for rebase, reason in applied.left}
    marked = {rebase.location for rebase in applied.marked}
    places: dict[str, dict[tuple[Location, str], None]] = {what: {} for what in _STEPS}
    for config in report.configs:
        for patch in config.patches:
            is_written = patch.rebase is not None and patch.rebase in applied.merged
            patch = _still_open(config, patch, applied) if is_written else patch
            reason = left.get(patch.rebase.location, "") if patch.rebase is not None else ""
            step = _step(patch, is_written, reason)
            if step is not None:
                what, reason = step
                is_marked = patch.rebase is not None and patch.rebase.location in marked
                what = _RESOLVE if what == _MERGE and is_marked else what
                places[what][patch.location, f"{patch.target}: {reason}"] = None
        for problem in config_problems(config):
            places[_CHANGE][problem.location or Location(config.path, config.line), problem.title] = None
        for finding in sort_by_risk(f for f in config.findings if f.rebase is None):
            what = _CHANGE if finding.risk == "must change" else _LOOK
            places[what][Location(config.path, config.line), str(finding)] = None
    return [
        Step(what, tuple((now(at), reason) for at, reason in entries)) for what, entries in places.items() if entries
    ]


def _still_open(config: ConfigVerdict, patch: PatchVerdict, applied: Applied) -> PatchVerdict:
    """A patch whose replacement was written, with what there still is to look at: the new text may no longer rely on
    what the old one did, or be upstream's. An edit that stays, and a target with another name, are as they were."""
    if patch.rebase is not None and patch.rebase.merged.how == "decided" and not patch.rebase.merged.text:
        return replace(patch, findings=patch.findings[:1])
    if applied.standing is None or patch.new_name or (patch.rebase is not None and patch.rebase.is_edit):
        return patch
    now = applied.standing.get((config.config, patch.target), ())
    if any(verdict.verdict == "now upstream" for verdict in now):
        return replace(patch, verdict="now upstream")
    about = {(f.relation, f.about) for verdict in now for f in verdict.findings if f.risk != "safe"}
    findings = [f for f in patch.findings if f.relation == "target" or (f.relation, f.about) in about]
    return replace(patch, findings=tuple(findings))


def _step(patch: PatchVerdict, is_written: bool, reason_left: str) -> tuple[str, str] | None:
    rebase = patch.rebase
    is_deleted = rebase is not None and rebase.is_deletion and not reason_left
    if patch.verdict in ("now upstream", "gone") and not is_deleted:
        return _DELETE if patch.verdict == "now upstream" else _CHANGE, reason_left or patch.verdict
    if rebase is not None and not rebase.merged.is_clean:
        return _MERGE, quantity(len(rebase.merged.conflicts), "conflict")
    if reason_left and (reason_left != SKIPPED or patch.risk != "must change"):
        return _LOOK if reason_left == SKIPPED else _CHANGE, reason_left
    is_decided = rebase is not None and rebase.merged.how == "decided"
    is_merged = not reason_left and (is_applied(patch) or is_decided)
    others = [problem.title for problem in patch.problems if not is_merged]
    others += [_short(f) for f in sort_by_risk(patch.findings) if not (is_merged and f.relation == "target")]
    reason = others[0] + (f"; and {len(others) - 1} more" if len(others) > 1 else "") if others else ""
    if is_merged:  # what does not hold after that is told by applying it
        return (_LOOK if is_written or patch.risk == "review" else _CHECK, reason) if reason else None
    if patch.risk == "must change":
        return _CHANGE, f"it is called {patch.new_name} now" if patch.new_name else reason or patch.verdict
    return (_LOOK, reason or patch.verdict) if patch.risk == "review" else None


def _short(finding: Finding) -> str:
    """A finding beside the name of its patch's target."""
    return str(finding).removeprefix(f"{finding.about} ") if finding.relation == "target" else str(finding)
