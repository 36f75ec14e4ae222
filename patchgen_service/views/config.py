"""A config over time: its checks run by run, how near parity came to its limit, and when it turned red, by whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from patchgen_core.checks.registry import place
from patchgen_core.checks.result import BAD
from patchgen_service.database.tables import Commit, Environment, Result, Run
from patchgen_service.views.branch import ConfigKey
from patchgen_service.views.severity import worst

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
    query = (
        select(
            Run.id,
            Run.created,
            Commit.sha,
            Commit.subject,
            Commit.author,
            Run.branch,
            Environment.device,
            Result.check,
            Result.item,
            Result.status,
            Result.headline,
            Result.causes,
            Result.id.label("result_id"),
        )
        .join(Run, Run.id == Result.run_id)
        .join(Commit, Commit.id == Run.commit_id)
        .outerjoin(Environment, Environment.id == Run.environment_id)
        .where(*_of_config(repository_id, branch, key))
        .where(Result.run_id.in_(_last_runs(session, repository_id, branch, key)))
        .order_by(Run.number, Result.id)
    )
    rows = session.execute(query).all()
    if not rows:
        return None
    runs = _runs(rows)
    series = _series(session, repository_id, branch, key, list(runs.values()))
    checks = sorted({row.check for row in rows}, key=place)
    return ConfigHistory(key, branch, tuple(checks), tuple(runs.values()), _turns(rows, runs), series)


def _of_config(repository_id: int, branch: str, key: ConfigKey) -> tuple[ColumnElement[bool], ...]:
    return (
        Result.config == key.config,
        Result.project == key.project,
        Result.path == key.path,
        Run.repository_id == repository_id,
        Run.branch == branch,
        Run.transformers == "",
    )


def _last_runs(session: Session, repository_id: int, branch: str, key: ConfigKey) -> Sequence[str]:
    query = (
        select(Run.id, Run.number)
        .join(Result, Result.run_id == Run.id)
        .where(*_of_config(repository_id, branch, key))
        .distinct()
        .order_by(Run.number.desc())
        .limit(_MOST_RUNS)
    )
    return session.scalars(query).all()


def _runs(rows: Iterable[Any]) -> dict[str, ConfigRun]:
    statuses: dict[str, dict[str, list[str]]] = {}
    runs: dict[str, ConfigRun] = {}
    for row in rows:
        device = row.device or "cpu"
        runs[row.id] = ConfigRun(row.id, row.created, row.sha, row.subject, row.author, row.branch, device, {})
        statuses.setdefault(row.id, {}).setdefault(row.check, []).append(row.status)
    return {
        number: replace(run, statuses={check: worst(values) for check, values in statuses[number].items()})
        for number, run in runs.items()
    }


def _turns(rows: Iterable[Any], runs: Mapping[str, ConfigRun]) -> tuple[Turn, ...]:
    last: dict[str, bool] = {}
    turns = []
    for row in rows:
        if row.status == "skipped":
            continue
        is_bad = row.status in BAD
        if is_bad is not last.get(row.item, False):
            turns.append(
                Turn(runs[row.id], row.check, row.item, is_bad, row.headline, tuple(row.causes), row.result_id)
            )
        last[row.item] = is_bad
    return tuple(reversed(turns))


def _series(
    session: Session, repository_id: int, branch: str, key: ConfigKey, runs: Sequence[ConfigRun]
) -> tuple[Series, ...]:
    step = -(-len(runs) // _MOST_POINTS)
    chosen = {run.id: run for run in reversed(runs[::-1][::step])} if runs else {}
    query = (
        select(Result.run_id, Result.item, Result.figures)
        .where(Result.config == key.config, Result.project == key.project, Result.path == key.path)
        .where(Result.run_id.in_(chosen), Result.check == "parity")
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
