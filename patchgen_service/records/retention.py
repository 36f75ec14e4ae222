"""Removing what is old: each kind after its time, and never what something still refers to."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Delete, and_, delete, exists, func, select, update
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from patchgen_service.database.engine import Transactions, give_back_space
from patchgen_service.database.statements import insert_once, lock_row, split
from patchgen_service.database.tables import (
    Approval,
    ArtifactUse,
    AuditEntry,
    Base,
    Commit,
    Environment,
    PeriodicTask,
    Post,
    Result,
    Run,
    Token,
    Trigger,
    WebhookDelivery,
    WebSession,
)
from patchgen_service.database.words import UNFINISHED
from patchgen_service.records.baselines import is_accepted
from patchgen_service.records.files import sweep_files
from patchgen_service.settings import ServiceSettings
from patchgen_service.store import Store

MOST_RUNS = 500
"""How many runs one call removes: others wait for the database meanwhile."""
LONGEST_STEP = timedelta(days=2)
"""By so much what counts as old moves at a time, so that a clock that jumps ahead does not empty the service."""
_TASK = "day of retention"
"""Another than that of whoever calls here every so often, who notes the time of the clock."""
_RESULT_FILES = ("result",)
_FILES = ("diff", "generated", "removed", "report", "picture")
_LOGS = ("log",)
_BRANCH = ("repository_id", "branch", "pull_request", "is_fork", "transformers")
_DAYS_EXPIRED = 30


@dataclass(frozen=True)
class Removal:
    """How many of each kind were removed, and how many bytes of files.

    Attributes:
        files: uses of stored files; the files go with the last use.
        is_done: whether nothing is left that is old enough; else call again.
    """

    runs: int = 0
    files: int = 0
    posts: int = 0
    deliveries: int = 0
    audit: int = 0
    environments: int = 0
    sessions: int = 0
    bytes: int = 0
    is_done: bool = True

    def __str__(self) -> str:
        counts = ((name, getattr(self, name)) for name in _COUNTS)
        return ", ".join(f"{number} {name}" for name, number in counts if number) or "nothing"


_COUNTS = tuple(field.name for field in fields(Removal) if field.name != "is_done")


def clean_up(transactions: Transactions, store: Store, settings: ServiceSettings, now: datetime) -> Removal:
    """Remove all that is old, in transactions that others need not wait long for, and give its space back."""
    total = Removal(is_done=False)
    with transactions() as session:
        engine, today = session.get_bind().engine, move_on(session, now)
    while not total.is_done:
        with transactions() as session:
            step = remove_old(session, store, settings, today)
        sums = {name: getattr(total, name) + getattr(step, name) for name in _COUNTS}
        total = Removal(**sums, is_done=step.is_done)
    give_back_space(engine)
    return total


def remove_old(session: Session, store: Store, settings: ServiceSettings, today: datetime) -> Removal:
    """Remove what is older than its kind is kept for, and the stored files that nothing uses any more.

    Ages are counted from ``today``, as :func:`move_on` says. Of many runs, a part is removed.

    These stay, whatever their age: unfinished runs, the newest of each branch, its newest passed or approved run, runs
    that have an approval, and runs that one which is not old is compared with.
    """
    times = settings.retention
    runs = _old_runs(session, times.runs, times.newest, today)
    _remove_runs(session, runs)
    kinds = ((_RESULT_FILES, times.results), (_FILES, times.files), (_LOGS, times.logs))
    files = sum(_remove_uses(session, kind, days, today) for kind, days in kinds)
    newer = aliased(Post)
    is_said = Post.state.in_(("sent", "failed", "obsolete"))
    is_replaced = Post.run_id.is_(None) | exists().where(newer.subject == Post.subject, newer.id > Post.id)
    is_handled = WebhookDelivery.handled.is_not(None)
    unused = ~exists().where(Run.environment_id == Environment.id)
    session.expire_all()
    return Removal(
        runs=len(runs),
        files=files,
        posts=_remove_rows(session, Post, Post.created, times.posts, today, is_said, is_replaced),
        deliveries=_remove_rows(session, WebhookDelivery, WebhookDelivery.received, times.posts, today, is_handled),
        audit=_remove_rows(session, AuditEntry, AuditEntry.at, times.audit, today),
        environments=_remove_rows(session, Environment, Environment.used, times.environments, today, unused),
        sessions=_remove_rows(session, WebSession, WebSession.expires, _DAYS_EXPIRED, today)
        + _remove_rows(session, Token, Token.expires, _DAYS_EXPIRED, today),
        bytes=sweep_files(session, store),
        is_done=len(runs) < MOST_RUNS,
    )


def move_on(session: Session, now: datetime) -> datetime:
    """The time that ages are counted from: now, unless the clock has jumped ahead since the last call."""
    insert_once(session, PeriodicTask, name=_TASK, done=now)
    task = lock_row(session, PeriodicTask, _TASK)
    assert task is not None
    task.done = min(now, task.done + LONGEST_STEP)
    session.flush()
    return task.done


def _old_runs(session: Session, days: int, newest: int, today: datetime) -> list[str]:
    """The ids of runs to remove, the oldest first."""
    if not days:
        return []
    later, other = aliased(Run), aliased(Run)
    younger = select(func.count()).where(_is_later(later)).correlate(Run).scalar_subquery()
    next_baseline = is_accepted(Run) & ~exists().where(_is_later(later), is_accepted(later)).correlate(Run)
    is_old = (
        (Run.created < today - timedelta(days=days))
        & Run.status.not_in(UNFINISHED)
        & (younger >= max(newest, 1))
        & ~exists().where(Approval.run_id == Run.id).correlate(Run)
        & ~next_baseline
    )
    old = select(Run.id).where(is_old).subquery()
    compared = exists().where(
        (other.baseline_id == Run.id) | (other.previous_id == Run.id), other.id.not_in(select(old.c.id))
    )
    removable = select(Run.id).where(Run.id.in_(select(old.c.id)), ~compared.correlate(Run))
    return list(session.scalars(removable.order_by(Run.created, Run.number).limit(MOST_RUNS)))


def _is_later(later: type[Run]) -> ColumnElement[bool]:
    """Whether another run is a later one of a run's branch."""
    same = [getattr(later, name) == getattr(Run, name) for name in _BRANCH]
    return and_(later.number > Run.number, *same)


def _remove_runs(session: Session, runs: list[str]) -> None:
    """Remove runs with all that is theirs, and the commits that only they were of."""
    for part in split(runs):
        rows = session.execute(select(Run.trigger_id, Run.commit_id).where(Run.id.in_(part))).all()
        triggers = [row.trigger_id for row in rows]
        session.execute(delete(Trigger).where(Trigger.id.in_(triggers) | Trigger.joined.in_(part)))
        unused = ~exists().where(Run.commit_id == Commit.id)
        session.execute(delete(Commit).where(Commit.id.in_({row.commit_id for row in rows}), unused))


def _remove_uses(session: Session, kinds: tuple[str, ...], days: int, today: datetime) -> int:
    """Let old runs go without their files of some kinds: not the newest of a branch, nor while one is approved."""
    if not days:
        return 0
    later = aliased(Run)
    old = select(Run.id).where(
        Run.created < today - timedelta(days=days),
        Run.status.not_in(UNFINISHED),
        exists().where(_is_later(later)).correlate(Run),
        ~exists().where(Approval.run_id == Run.id, Approval.state == "pending").correlate(Run),
    )
    if kinds == _RESULT_FILES:
        session.execute(update(Result).where(Result.run_id.in_(old), Result.data != "").values(data=""))
    return _count(session, delete(ArtifactUse).where(ArtifactUse.kind.in_(kinds), ArtifactUse.run_id.in_(old)))


def _remove_rows(
    session: Session,
    table: type[Base],
    since: InstrumentedAttribute[datetime] | InstrumentedAttribute[datetime | None],
    days: int,
    today: datetime,
    *conditions: ColumnElement[bool],
) -> int:
    if not days:
        return 0
    return _count(session, delete(table).where(since < today - timedelta(days=days), *conditions))


def _count(session: Session, statement: Delete) -> int:
    options = {"synchronize_session": False}
    return session.connection().execute(statement, execution_options=options).rowcount
