"""A config over time: its checks run by run, how near parity came to its limit, and when it turned red, by whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import ColumnElement, Select, exists, func, select
from sqlalchemy.orm import Session

from patchgen_core.checks.registry import place
from patchgen_core.checks.result import BAD
from patchgen_service.database.statements import split
from patchgen_service.database.tables import Commit, Environment, Result, Run
from patchgen_service.views.branch import ConfigKey
from patchgen_service.views.severity import worst

_MOST_RUNS = 400
_MOST_POINTS = 120
"""Of so many runs at most the figures are read."""
SHARE = "largest part of what is allowed"
_Item = tuple[str, int, str, str, str]
"""A result: its run, id, check, item and status."""


@dataclass(frozen=True)
class ConfigRun:
    """A run that a config was in: its worst status by check."""

    id: str
    created: datetime
    sha: str
    subject: str
    author: str
    branch: str
    device: str
    statuses: Mapping[str, str]


@dataclass(frozen=True)
class Turn:
    """A check of a config that turned red, or green again.

    Attributes:
        run: the first run in which it is so.
        headline, causes: what the check said.
    """

    run: ConfigRun
    check: str
    item: str
    is_bad: bool
    headline: str
    causes: tuple[str, ...]
    result_id: int


@dataclass(frozen=True)
class Point:
    """The largest part of what is allowed that an error took in a run; 1 is the limit."""

    run_id: str
    created: datetime
    share: float


@dataclass(frozen=True)
class Series:
    """Points of one item on a device in a dtype, oldest first."""

    item: str
    device: str
    dtype: str
    points: tuple[Point, ...]

    @property
    def name(self) -> str:
        """What tells it from other series."""
        return f"{self.item}, {self.device}, {self.dtype}"


@dataclass(frozen=True)
class ConfigHistory:
    """What a config's page shows; ``runs`` oldest first, ``turns`` newest first."""

    key: ConfigKey
    branch: str
    checks: tuple[str, ...]
    runs: tuple[ConfigRun, ...]
    turns: tuple[Turn, ...]
    series: tuple[Series, ...]


def read_config(session: Session, repository_id: int, branch: str, key: ConfigKey) -> ConfigHistory | None:
    """The last runs of a config on a branch; None where there are none."""
    recent = (
        select(Run.id)
        .where(Run.repository_id == repository_id, Run.branch == branch, Run.transformers == "")
        .where(exists().where(Result.run_id == Run.id, *_of_config(key)))
        .order_by(Run.number.desc())
        .limit(_MOST_RUNS)
    )
    items = _read_items(session, key, recent)
    runs = [replace(run, statuses=_worst_by_check(items[run.id])) for run in _read_runs(session, recent)]
    if not runs:
        return None
    checks = sorted({check for run in runs for check in run.statuses}, key=place)
    turns = _turns(session, _find_turns(runs, items))
    return ConfigHistory(key, branch, tuple(checks), tuple(runs), turns, _series(session, key, runs))


def _of_config(key: ConfigKey) -> tuple[ColumnElement[bool], ...]:
    return Result.config == key.config, Result.project == key.project, Result.path == key.path


def _read_runs(session: Session, recent: Select[str]) -> list[ConfigRun]:
    """Runs, oldest first, without the statuses of the config."""
    query = (
        select(
            Run.id,
            Run.created,
            Commit.sha,
            Commit.subject,
            Commit.author,
            Run.branch,
            func.coalesce(Environment.device, "cpu"),
        )
        .join(Commit, Commit.id == Run.commit_id)
        .outerjoin(Environment, Environment.id == Run.environment_id)
        .where(Run.id.in_(recent))
        .order_by(Run.number)
    )
    return [ConfigRun(*row, statuses={}) for row in session.execute(query)]


def _read_items(session: Session, key: ConfigKey, recent: Select[str]) -> dict[str, list[_Item]]:
    """What each item of the config came to, by run: one look at rows that are thousands, and lie apart."""
    query = select(Result.run_id, Result.id, Result.check, Result.item, Result.status)
    items: defaultdict[str, list[_Item]] = defaultdict(list)
    for item in session.execute(query.where(Result.run_id.in_(recent), *_of_config(key))):
        items[item[0]].append(item)
    return items


def _worst_by_check(items: Iterable[_Item]) -> dict[str, str]:
    statuses: dict[str, str] = {}
    for _, _, check, _, status in items:
        if statuses.setdefault(check, status) != status:
            statuses[check] = worst((statuses[check], status))
    return statuses


def _find_turns(runs: Iterable[ConfigRun], items: Mapping[str, Iterable[_Item]]) -> list[tuple[ConfigRun, _Item]]:
    """Where an item is red and was not in the run before, or the other way round; newest first."""
    red: set[str] = set()
    turns = []
    for run in runs:
        turned = []
        for result in items[run.id]:
            _, _, _, item, status = result
            if status != "skipped" and (status in BAD) != (item in red):
                red ^= {item}
                turned.append((run, result))
        turns += sorted(turned, key=lambda turn: turn[1][1])
    return turns[::-1]


def _turns(session: Session, turns: Sequence[tuple[ConfigRun, _Item]]) -> tuple[Turn, ...]:
    """Turns with what was said there."""
    query = select(Result.id, Result.headline, Result.causes)
    told_by_number = {
        number: (headline, tuple(causes))
        for part in split(number for _, (_, number, *_) in turns)
        for number, headline, causes in session.execute(query.where(Result.id.in_(part)))
    }
    return tuple(
        Turn(run, check, item, status in BAD, *told_by_number[number], number)
        for run, (_, number, check, item, status) in turns
    )


def _series(session: Session, key: ConfigKey, runs: Sequence[ConfigRun]) -> tuple[Series, ...]:
    step = -(-len(runs) // _MOST_POINTS)
    chosen = {run.id: run for run in reversed(runs[::-1][::step])} if runs else {}
    query = select(Result.run_id, Result.item, Result.figures).where(
        *_of_config(key), Result.run_id.in_(chosen), Result.check == "parity"
    )
    points: dict[tuple[str, str, str], list[Point]] = {}
    for run_id, item, figures in session.execute(query):
        run = chosen[run_id]
        for dtype, share in _shares(figures).items():
            points.setdefault((item, run.device, dtype), []).append(Point(run_id, run.created, share))
    return tuple(
        Series(*name, tuple(sorted(values, key=lambda point: (point.created, point.run_id))))
        for name, values in sorted(points.items())
    )


def _shares(figures: Mapping[str, float]) -> dict[str, float]:
    """For each dtype the worst share of all models and batches."""
    shares: dict[str, float] = {}
    for name, value in figures.items():
        run, _, quantity = name.partition(": ")
        if quantity == SHARE:
            dtype = run.rpartition(", ")[2]
            shares[dtype] = max(shares.get(dtype, 0.0), float(value))
    return shares
