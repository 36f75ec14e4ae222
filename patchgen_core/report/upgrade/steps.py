"""What remains for a person to do after an upgrade, whatever shows it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from patchgen_core.errors import Location
from patchgen_core.report.upgrade.texts import config_problems, is_applied, sort_by_risk
from patchgen_core.report.words import quantity
from patchgen_core.upgrade.results import Finding, PatchVerdict, Rebase, UpgradeReport

Now = Callable[[Location], Location]


def _same_place(location: Location) -> Location:
    return location


@dataclass(frozen=True)
class Step:
    """Something to do, as a sentence without its full stop, and the places where, each with what it is about."""

    what: str
    places: tuple[tuple[Location, str], ...]


_DELETE, _CHANGE, _MERGE, _CHECK, _LOOK = (
    "Delete these patches, upstream does the same now",
    "Change these patches, they do not fit any more",
    "Merge these by hand (--apply --write-conflicts marks the places)",
    "Check these after --apply",
    "Look at these",
)


def next_steps(report: UpgradeReport, written: Collection[Rebase] = (), now: Now = _same_place) -> list[Step]:
    """What remains for a person to do, most urgent first; each patch once, with the first step that fits it.

    ``written`` are the replacements that are carried over already; ``now`` says where a place is since then.
    """
    places: dict[str, dict[tuple[Location, str], None]] = {
        what: {} for what in (_DELETE, _CHANGE, _MERGE, _CHECK, _LOOK)
    }
    for config in report.configs:
        for patch in config.patches:
            step = _step(patch, patch.rebase is not None and patch.rebase in written)
            if step is not None:
                what, reason = step
                places[what][patch.location, f"{patch.target}: {reason}"] = None
        for problem in config_problems(config):
            places[_CHANGE][problem.location or Location(config.path, config.line), problem.title] = None
        for finding in sort_by_risk(config.findings):
            what = _CHANGE if finding.risk == "must change" else _LOOK
            places[what][Location(config.path, config.line), str(finding)] = None
    return [
        Step(what, tuple((now(at), reason) for at, reason in entries)) for what, entries in places.items() if entries
    ]


def _step(patch: PatchVerdict, is_written: bool) -> tuple[str, str] | None:
    """The step that fits a patch, and why; None when it needs none."""
    if patch.verdict in ("now upstream", "gone"):
        return _DELETE if patch.verdict == "now upstream" else _CHANGE, patch.verdict
    rebase = patch.rebase
    if rebase is not None and not rebase.merged.is_clean:
        return _MERGE, quantity(len(rebase.merged.conflicts), "conflict")
    is_merged = is_applied(patch)
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
