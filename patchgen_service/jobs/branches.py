"""Runs that nobody told about: of new commits where no webhook comes, and of the clock."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_service.database.tables import Repository, Run, Trigger
from patchgen_service.database.words import TriggerKind
from patchgen_service.git.mirror import Mirror
from patchgen_service.jobs.context import JobContext
from patchgen_service.records.new_runs import MOVES_BRANCH, RunCause, begin_run
from patchgen_service.schedules import is_schedule, last_time

_LOOKS_BACK = timedelta(hours=24)
"""After a service was down for longer, a schedule goes on with its next time."""


@dataclass(frozen=True)
class Head:
    """A branch that is to be watched, and the commit it is at."""

    branch: str
    sha: str


def poll_repository(context: JobContext, repository_id: int) -> list[str]:
    """Begin a run for each watched branch that is at a commit which no push was told of; returns their ids.

    A GitError where the repository cannot be reached.
    """
    repository = context.change(lambda session: session.get(Repository, repository_id))
    if repository is None or not repository.is_active:
        return []
    mirror = context.open_mirror(repository)
    mirror.fetch()
    heads = [Head(*head) for head in mirror.read_heads().items() if is_watched(repository, head[0])]
    return context.change(lambda session: list(_begin_moved(session, repository_id, mirror, heads, context.clock())))


def is_watched(repository: Repository, branch: str) -> bool:
    """Whether runs are begun for what is pushed to a branch."""
    patterns = repository.branches or [repository.default_branch]
    return any(fnmatch.fnmatchcase(branch, pattern) for pattern in patterns)


def _begin_moved(
    session: Session, repository_id: int, mirror: Mirror, heads: Sequence[Head], now: datetime
) -> Iterator[str]:
    repository = session.get_one(Repository, repository_id)
    for head in heads:
        before = _last_seen(session, repository_id, head.branch)
        if before == head.sha:
            continue
        commit = mirror.read_commit(head.sha)
        cause = RunCause(
            "poll",
            f"poll-{head.branch}-{before[:12]}-{head.sha}"[:200],
            head.branch,
            head.sha,
            before=before,
            subject=commit.subject,
            author=commit.author,
            committed=commit.committed,
        )
        yield begin_run(session, repository, cause, now).id


def _last_seen(session: Session, repository_id: int, branch: str) -> str:
    """The commit of a branch that something told of last; empty where nothing has."""
    seen = select(Trigger.sha).where(
        Trigger.repository_id == repository_id,
        Trigger.branch == branch,
        Trigger.is_fork.is_(False),
        Trigger.pull_request == 0,
        Trigger.kind.in_((*MOVES_BRANCH, "push")),
    )
    return session.scalar(seen.order_by(Trigger.id.desc()).limit(1)) or ""


def run_schedule(context: JobContext, repository_id: int) -> str | None:
    """Begin the run that a repository's schedule asks for now, of its default branch; None where it does not.

    Each time of a schedule has one run, however often this is called; of times that were missed only the last.
    """
    now = context.clock()
    repository = context.change(lambda session: session.get(Repository, repository_id))
    if repository is None or not repository.is_active or not is_schedule(repository.schedule):
        return None
    due = last_time(repository.schedule, now)
    delivery = f"schedule-{due:%Y-%m-%dT%H:%M}"
    known = select(Trigger.id).filter_by(repository_id=repository_id, delivery=delivery)
    if due < max(repository.created, now - _LOOKS_BACK) or context.change(lambda session: session.scalar(known)):
        return None
    cause = head_cause(context, repository, "schedule", delivery)
    return begin_here(context, repository_id, cause)


def begin_here(context: JobContext, repository_id: int, cause: RunCause) -> str:
    """Begin the run of a cause, in a transaction of its own, and return its id."""

    def begin(session: Session) -> str:
        return begin_run(session, session.get_one(Repository, repository_id), cause, context.clock()).id

    return context.change(begin)


def head_cause(
    context: JobContext, repository: Repository, kind: TriggerKind, delivery: str, transformers: str = ""
) -> RunCause:
    """The cause of a run of the default branch as it is now; a GitError where that cannot be seen."""
    mirror = context.open_mirror(repository)
    mirror.fetch()
    commit = mirror.read_commit(mirror.resolve(repository.default_branch))
    return RunCause(
        kind,
        delivery,
        repository.default_branch,
        commit.sha,
        actor="service",
        transformers=transformers,
        subject=commit.subject,
        author=commit.author,
        committed=commit.committed,
    )


def pending_runs(session: Session) -> Sequence[str]:
    """The runs that wait to be carried out, the oldest first; the results of pushed ones come by themselves."""
    runs = select(Run.id).join(Trigger, Trigger.id == Run.trigger_id)
    return session.scalars(runs.where(Run.status == "pending", Trigger.kind != "push").order_by(Run.created)).all()


def pushed_runs(session: Session, since: datetime, most: int) -> Sequence[str]:
    """The newest runs whose results others hand in that have begun since then."""
    runs = select(Run.id).join(Trigger, Trigger.id == Run.trigger_id)
    recent = runs.where(Trigger.kind == "push", Run.created > since).order_by(Run.created.desc())
    return session.scalars(recent.limit(most)).all()
