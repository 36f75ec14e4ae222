"""A config over time: its checks run by run, how near parity came to its limit, and when it turned red, by whom."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import ColumnElement, case, exists, func, select
from sqlalchemy.orm import Session

from patchgen_core.checks.registry import place
from patchgen_core.checks.result import BAD
from patchgen_service.database.tables import Commit, Environment, Result, Run
from patchgen_service.views.branch import ConfigKey
from patchgen_service.views.severity import WORST_FIRST, worst_rank

_MOST_RUNS = 400
_MOST_POINTS = 120
"""Of so many runs at most the figures are read."""
SHARE = "largest part of what is allowed"


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
    last = {run.id: run for run in _last_runs(session, repository_id, branch, key)}
    statuses = _statuses(session, key, last)
    runs = {number: replace(run, statuses=statuses[number]) for number, run in last.items()}
    if not runs:
        return None
    checks = sorted({check for own in statuses.values() for check in own}, key=place)
    series = _series(session, key, list(runs.values()))
    return ConfigHistory(key, branch, tuple(checks), tuple(runs.values()), _turns(session, key, runs), series)


def _of_config(key: ConfigKey) -> tuple[ColumnElement[bool], ...]:
    return Result.config == key.config, Result.project == key.project, Result.path == key.path


def _last_runs(session: Session, repository_id: int, branch: str, key: ConfigKey) -> list[ConfigRun]:
    """The last runs that a config was in, oldest first, without its statuses."""
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
        .where(Run.repository_id == repository_id, Run.branch == branch, Run.transformers == "")
        .where(exists().where(Result.run_id == Run.id, *_of_config(key)))
        .order_by(Run.number.desc())
        .limit(_MOST_RUNS)
    )
    return [ConfigRun(*row, statuses={}) for row in reversed(session.execute(query).all())]


def _statuses(session: Session, key: ConfigKey, runs: Collection[str]) -> dict[str, dict[str, str]]:
    """The worst status of a config in each run, by check."""
    query = select(Result.run_id, Result.check, worst_rank()).where(Result.run_id.in_(runs), *_of_config(key))
    statuses: dict[str, dict[str, str]] = {}
    for run_id, check, rank in session.execute(query.group_by(Result.run_id, Result.check)):
        statuses.setdefault(run_id, {})[check] = WORST_FIRST[rank]
    return statuses


def _turns(session: Session, key: ConfigKey, runs: Mapping[str, ConfigRun]) -> tuple[Turn, ...]:
    """Where an item is red and was not in the run before, or the other way round; newest first."""
    is_bad = case((Result.status.in_(BAD), 1), else_=0)
    before = func.lag(is_bad, 1, 0).over(partition_by=Result.item, order_by=(Run.number, Result.id))
    steps = (
        select(Result.id, Run.number, is_bad.label("is_bad"), before.label("before"))
        .join(Run, Run.id == Result.run_id)
        .where(Result.run_id.in_(runs), *_of_config(key), Result.status != "skipped")
        .subquery()
    )
    query = (
        select(Result.run_id, Result.check, Result.item, steps.c.is_bad, Result.headline, Result.causes, Result.id)
        .join(steps, steps.c.id == Result.id)
        .where(steps.c.is_bad != steps.c.before)
        .order_by(steps.c.number.desc(), Result.id.desc())
    )
    return tuple(
        Turn(runs[run_id], check, item, bool(is_bad), headline, tuple(causes), number)
        for run_id, check, item, is_bad, headline, causes, number in session.execute(query)
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
