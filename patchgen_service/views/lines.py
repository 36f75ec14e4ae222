"""Runs as lists show them: a line each, with its counts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, case, func, select, true
from sqlalchemy.orm import Session

from patchgen_core.checks.result import BAD
from patchgen_service.database.tables import Commit, Repository, Result, Run, Trigger
from patchgen_service.database.words import RED, UNFINISHED

Visible = Collection[int] | None
"""Ids of the repositories that somebody may see; None for all."""


@dataclass(frozen=True)
class Counts:
    """How many results of a run there are: all, red ones, and by what changed since the baseline."""

    total: int = 0
    bad: int = 0
    new: int = 0
    known: int = 0
    fixed: int = 0


@dataclass(frozen=True)
class RunLine:
    """A run with its commit and trigger.

    Attributes:
        transformers: the release that it ran with, where that is not the environment's own.
        expected: how many results it will have; none while that is not known.
    """

    id: str
    number: int
    repository_id: int
    repository: str
    branch: str
    pull_request: int
    status: str
    message: str
    transformers: str
    expected: int | None
    worker: str
    created: datetime
    started: datetime | None
    ended: datetime | None
    superseded_by: str | None
    sha: str
    subject: str
    author: str
    trigger: str
    actor: str
    counts: Counts = Counts()

    @property
    def is_red(self) -> bool:
        """Whether somebody should look."""
        return self.status in RED

    @property
    def is_unfinished(self) -> bool:
        """Whether results are still to come."""
        return self.status in UNFINISHED

    @property
    def seconds(self) -> float | None:
        """How long it ran; None before its end."""
        return (self.ended - self.started).total_seconds() if self.ended and self.started else None


def is_visible(visible: Visible) -> ColumnElement[bool]:
    """The condition that a repository is one of those that may be seen."""
    return true() if visible is None else Repository.id.in_(sorted(visible))


def read_lines(
    session: Session, *conditions: ColumnElement[bool], limit: int | None = None, offset: int = 0
) -> list[RunLine]:
    """The runs that fit all conditions, newest first, with their counts."""
    query = (
        select(
            Run.id,
            Run.number,
            Run.repository_id,
            Repository.name,
            Run.branch,
            Run.pull_request,
            Run.status,
            Run.message,
            Run.transformers,
            Run.expected,
            Run.worker,
            Run.created,
            Run.started,
            Run.ended,
            Run.superseded_by,
            Commit.sha,
            Commit.subject,
            Commit.author,
            Trigger.kind,
            Trigger.actor,
        )
        .join(Repository, Repository.id == Run.repository_id)
        .join(Commit, Commit.id == Run.commit_id)
        .join(Trigger, Trigger.id == Run.trigger_id)
        .where(*conditions)
        .order_by(Run.created.desc(), Run.number.desc())
        .limit(limit)
        .offset(offset)
    )
    rows: list[tuple[Any, ...]] = [tuple(row) for row in session.execute(query)]
    lines = [RunLine(*row) for row in rows]
    counts = count_results(session, [line.id for line in lines])
    return [replace(line, counts=counts.get(line.id, Counts())) for line in lines]


def read_line(session: Session, run_id: str) -> RunLine | None:
    """A run; None where there is none."""
    return next(iter(read_lines(session, Run.id == run_id)), None)


def count_results(session: Session, runs: Sequence[str]) -> dict[str, Counts]:
    """The counts of runs by their id; runs without results are left out."""
    if not runs:
        return {}

    def count(condition: ColumnElement[bool]) -> ColumnElement[int]:
        return func.sum(case((condition, 1), else_=0))

    query = (
        select(
            Result.run_id,
            func.count(),
            count(Result.status.in_(BAD)),
            *(count(Result.change == change) for change in ("new", "known", "fixed")),
        )
        .where(Result.run_id.in_(runs))
        .group_by(Result.run_id)
    )
    return {run: Counts(*map(int, numbers)) for run, *numbers in session.execute(query)}
