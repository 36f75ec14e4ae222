"""What checks that have run say of a config: phrases for lenses, a table for the hover, findings for lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from patchgen_core.checks.registry import place
from patchgen_core.checks.standing import Standing
from patchgen_core.errors import Location, Problem
from patchgen_core.report.words import age

FIRST = "parity"
"""The check that people ask for first."""


def describe_standings(standings: Sequence[Standing], is_unsaved: bool) -> list[str]:
    """What checks came to, in phrases such as ``parity, import ok 2 h ago``; nothing for a config that has unsaved
    changes is ok."""
    phrases: dict[str, list[str]] = {}
    checks = dict.fromkeys(standing.check for standing in standings)
    for check in sorted(checks, key=lambda name: (name != FIRST, place(name))):
        own = [standing for standing in standings if standing.check == check]
        phrases.setdefault(_state(own, is_unsaved), []).append(check)
    return [f"{', '.join(checks)} {state}" for state, checks in phrases.items()]


def _state(standings: Sequence[Standing], is_unsaved: bool) -> str:
    red = [standing for standing in standings if standing.is_red]
    if red and all(standing.made for standing in red) and not is_unsaved and not any(s.changes for s in red):
        return f"red {age(min(standing.made for standing in red))}"
    if red:
        return "red in the last run"
    if is_unsaved or not all(standing.is_current for standing in standings):
        return "not current"
    return f"ok {age(min(standing.made for standing in standings))}"


def tabulate_standings(standings: Sequence[Standing], is_unsaved: bool) -> str:
    """The standings of all items as Markdown, with what has changed since."""
    rows = []
    for standing in sorted(standings, key=lambda each: (place(each.check), each.item)):
        changes = (*standing.changes, *(["there are unsaved changes"] if is_unsaved else []))
        age_text = age(standing.made) if standing.made else ""
        state = "red" if standing.is_red else "not current" if changes else "ok"
        more = f" and {len(changes) - 2} more" if len(changes) > 2 else ""
        rows.append(f"| `{standing.item}` | {state} | {age_text} | {'; '.join(changes[:2])}{more} |")
    return "\n".join(["| check | result | made | since then |", "|---|---|---|---|", *rows]) if rows else ""


@dataclass(frozen=True)
class KeptFinding:
    """What a check found that has run, and how much it weighs now."""

    check: str
    problem: Problem
    weight: Literal["error", "warning", "remark"]


def list_findings(standings: Iterable[Standing], at: Location, is_unsaved: bool) -> Iterator[KeptFinding]:
    """The findings of checks that have run; of those that no longer hold only what was red, as a remark."""
    for standing in standings:
        is_stale = bool(standing.changes) or is_unsaved
        if standing.is_red and not standing.made:
            message = f"{standing.item} was red when it ran last"
            problem = Problem(message, at, "Run it again to see why.", code=standing.check)
            yield KeptFinding(standing.check, problem, "warning")
            continue
        when = f"{standing.item}, {age(standing.made)}" + (", before the last change" if is_stale else "")
        for result in standing.results:
            causes = [Problem(str(cause), at) for cause in result.causes] if result.is_bad else []
            for problem in (*result.errors, *causes):
                dated = _dated(problem, at, when, standing.check)
                yield KeptFinding(standing.check, dated, "remark" if is_stale else "error")
            for problem in () if is_stale else result.warnings:
                yield KeptFinding(standing.check, _dated(problem, at, when, standing.check), "warning")


def _dated(problem: Problem, at: Location, when: str, check: str) -> Problem:
    place_of = problem.location or at
    return replace(problem, message=f"{problem.message} ({when})", location=place_of, code=problem.code or check)
