"""The life of a run: it begins once for what it is caused by, runs, gets its results, and always ends."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_service.database.statements import insert_once, lock_row
from patchgen_service.database.tables import Commit, Repository, Run, Trigger
from patchgen_service.database.words import COMPLETE, UNFINISHED, RunStatus, TriggerKind
from patchgen_service.records.audit import write_audit
from patchgen_service.records.verdicts import decide
from patchgen_service.secrets import make_token, token_digest

MOVES_BRANCH: tuple[TriggerKind, ...] = ("webhook", "poll", "approval")
"""What says that a branch is at another commit: such a run takes the place of older ones."""
_REPLACEABLE: tuple[TriggerKind, ...] = (*MOVES_BRANCH, "schedule")
_LONGEST = {"delivery": 200, "branch": 500, "base": 500, "sha": 64, "before": 64, "transformers": 40}
_MOST_STEPS = 100


class RunEnded(Exception):
    """A run takes nothing more: it has ended, as its ``status`` says."""

    def __init__(self, run: Run) -> None:
        super().__init__(f"run {run.number} has ended: {run.status}")
        self.status = run.status


@dataclass(frozen=True)
class RunCause:
    """What a run is begun by, and over what; the columns of :class:`~patchgen_service.database.tables.Trigger`.

    Attributes:
        delivery: the forge's id of the delivery, or another that is the same when the same thing is told again.
        transformers: a release to run with instead of the environment's own; empty for that.
        subject, author, committed: of the commit, as far as they are known.
    """

    kind: TriggerKind
    delivery: str
    branch: str
    sha: str
    base: str = ""
    before: str = ""
    pull_request: int = 0
    is_fork: bool = False
    actor: str = ""
    transformers: str = ""
    subject: str = ""
    author: str = ""
    committed: datetime | None = None


@dataclass(frozen=True)
class RunProblem:
    """Why a run could not be carried through: ``infrastructure_error`` or ``timed_out``, and a sentence."""

    status: RunStatus
    message: str


def begin_run(session: Session, repository: Repository, cause: RunCause, now: datetime) -> Run:
    """The run of a cause: a new one, pending, or the one there is.

    A delivery that comes again has the run that it had. Where a run of the branch's same commit is there already, and
    has not failed to give an answer, the cause joins it. Older unfinished runs of the branch are superseded; a
    delivery that comes after that of a later push is superseded itself. A ValueError where a text is too long.
    """
    for name, longest in _LONGEST.items():
        if len(getattr(cause, name)) > longest:
            raise ValueError(f"the {name} of a run has at most {longest} characters")
    locked = lock_row(session, Repository, repository.id)
    assert locked is not None, "the repository was removed meanwhile"
    known = session.scalar(select(Trigger).filter_by(repository_id=locked.id, delivery=cause.delivery))
    if known is not None and (run := run_of_trigger(session, known)) is not None:
        return run
    newest = _newest_of_branch(session, locked.id, cause) if cause.kind in MOVES_BRANCH else None
    trigger = known or _add_trigger(session, locked.id, cause, now)
    if newest is not None and _answers(newest, cause):
        trigger.joined = newest.id
        return newest
    later = newest if newest is not None and _came_late(session, newest, cause) else None
    locked.run_count += 1
    run = Run(
        id=f"{locked.id}-{locked.run_count}-{secrets.token_hex(6)}",
        number=locked.run_count,
        repository_id=locked.id,
        commit_id=_note_commit(session, locked.id, cause).id,
        trigger_id=trigger.id,
        sha=cause.sha,
        branch=cause.branch,
        pull_request=cause.pull_request,
        is_fork=cause.is_fork,
        transformers=cause.transformers,
        created=now,
    )
    session.add(run)
    session.flush()
    if later is not None:
        _supersede(run, later, now)
    elif cause.kind in MOVES_BRANCH:
        for older in _unfinished_of_branch(session, run):
            _supersede(older, run, now)
    session.flush()
    return run


def run_of_trigger(session: Session, trigger: Trigger) -> Run | None:
    """The run that a trigger began or joined."""
    if trigger.joined:
        return session.get(Run, trigger.joined)
    return session.scalar(select(Run).filter_by(trigger_id=trigger.id))


def start_run(session: Session, run_id: str, worker: str, now: datetime) -> Run:
    """Note that a worker carries a run out, be it for the second time; RunEnded when it has been cancelled before."""
    run = lock_unfinished(session, run_id)
    run.status, run.worker, run.started, run.heard = "running", worker, run.started or now, now
    return run


def hear_from_run(session: Session, run_id: str, now: datetime) -> None:
    """Note a sign of life; RunEnded when the run was cancelled or superseded and is not to be carried on."""
    lock_unfinished(session, run_id).heard = now


def make_run_token(session: Session, run_id: str) -> str:
    """A new token that can hand in results of this run until it ends, and nothing else."""
    token = make_token("run")
    lock_unfinished(session, run_id).token = token_digest(token)
    return token


def find_run_by_token(session: Session, token: str) -> Run | None:
    """The unfinished run that a token is for."""
    return session.scalar(select(Run).where(Run.token == token_digest(token), Run.status.in_(UNFINISHED)))


def expect_items(session: Session, run_id: str, project: str, count: int) -> None:
    """Note how many items a project's gate has."""
    run = lock_unfinished(session, run_id)
    run.expected_by = {**run.expected_by, project: count}
    run.expected = sum(run.expected_by.values())


def end_run(session: Session, run_id: str, now: datetime, problem: RunProblem | None = None) -> Run:
    """End a run as its results say, or as the problem does that kept it from getting them all.

    A run that has ended stays as it is.
    """
    run = lock_run(session, run_id)
    if run.status in UNFINISHED:
        verdict = decide(session, run)
        if problem is not None:
            _close(run, problem.status, "; ".join(filter(None, (problem.message, verdict.counts))), now)
        else:
            _close(run, verdict.status, verdict.message, now)
    return run


def repeat_cause(session: Session, run: Run, kind: TriggerKind, delivery: str, actor: str) -> RunCause:
    """What begins a run of the same commit once more; above all, one of a fork's commit stays one of a fork's."""
    trigger = session.get_one(Trigger, run.trigger_id)
    return RunCause(
        kind,
        delivery,
        run.branch,
        run.sha,
        base=trigger.base,
        pull_request=run.pull_request,
        is_fork=run.is_fork,
        actor=actor,
        transformers=run.transformers,
    )


def cancel_run(session: Session, run_id: str, actor: str, now: datetime, reason: str = "") -> Run:
    """End an unfinished run by hand, or for a reason; one that has ended stays as it is."""
    run = lock_run(session, run_id)
    if run.status in UNFINISHED:
        _close(run, "cancelled", reason or f"cancelled by {actor}", now)
        details = {"run": run.id, **({"reason": reason} if reason else {})}
        write_audit(session, actor, "run.cancel", now, f"run {run.number}", run.repository_id, **details)
    return run


def superseded_runs(session: Session, run_id: str) -> Sequence[Run]:
    """The runs that a run took the place of: whoever carries them out is to stop."""
    return session.scalars(select(Run).where(Run.superseded_by == run_id).order_by(Run.number)).all()


def silent_runs(session: Session, before: datetime) -> Sequence[Run]:
    """Unfinished runs of which nothing has been heard since then, but for those that wait to be carried out here."""
    last = Run.heard.is_not(None) & (Run.heard < before) | Run.heard.is_(None) & (Run.created < before)
    waits = (Run.status == "pending") & (Run.token == "")
    return session.scalars(select(Run).where(Run.status.in_(UNFINISHED), last, ~waits).order_by(Run.number)).all()


def lock_run(session: Session, run_id: str) -> Run:
    """A run that others cannot change until the transaction ends."""
    run = lock_row(session, Run, run_id)
    assert run is not None, "a run is not removed before it ends"
    return run


def lock_unfinished(session: Session, run_id: str) -> Run:
    """A run that others cannot change until the transaction ends; RunEnded when it has ended."""
    run = lock_run(session, run_id)
    if run.status not in UNFINISHED:
        raise RunEnded(run)
    return run


def _close(run: Run, status: RunStatus, message: str, now: datetime) -> None:
    run.status, run.message, run.token = status, message, ""
    run.ended = max(now, run.started or run.created)


def _supersede(run: Run, newer: Run, now: datetime) -> None:
    run.superseded_by = newer.id
    _close(run, "superseded", f"run {newer.number} is of a newer commit of '{run.branch}'", now)


def _add_trigger(session: Session, repository_id: int, cause: RunCause, now: datetime) -> Trigger:
    names = ("kind", "delivery", "branch", "sha", "before", "base", "pull_request", "is_fork", "actor")
    trigger = Trigger(repository_id=repository_id, received=now, **{name: getattr(cause, name) for name in names})
    session.add(trigger)
    session.flush()
    return trigger


def _note_commit(session: Session, repository_id: int, cause: RunCause) -> Commit:
    """The commit of a cause, with what is known about it by now."""
    insert_once(session, Commit, repository_id=repository_id, sha=cause.sha)
    commit = session.scalars(select(Commit).filter_by(repository_id=repository_id, sha=cause.sha)).one()
    for name in ("subject", "author", "committed"):
        if (value := getattr(cause, name)) and not getattr(commit, name):
            setattr(commit, name, value)
    return commit


def _newest_of_branch(session: Session, repository_id: int, cause: RunCause) -> Run | None:
    """The newest run that was begun because the branch moved."""
    runs = (
        select(Run)
        .join(Trigger, Trigger.id == Run.trigger_id)
        .where(
            Run.repository_id == repository_id,
            Run.branch == cause.branch,
            Run.pull_request == cause.pull_request,
            Run.transformers == cause.transformers,
            Run.status != "superseded",
            Run.is_fork == cause.is_fork,
            Trigger.kind.in_(MOVES_BRANCH),
        )
    )
    return session.scalar(runs.order_by(Run.number.desc()).limit(1))


def _answers(newest: Run, cause: RunCause) -> bool:
    """Whether the newest run of a branch is what a cause asks for."""
    return newest.sha == cause.sha and newest.status in (*UNFINISHED, *COMPLETE)


def _came_late(session: Session, newest: Run, cause: RunCause) -> bool:
    """Whether known pushes lead from the commit of a cause to the one that the branch is at already."""
    if newest.sha in (cause.sha, cause.before):
        return False
    pushes = select(Trigger.before, Trigger.sha).filter_by(
        repository_id=newest.repository_id, branch=cause.branch, pull_request=cause.pull_request, is_fork=cause.is_fork
    )
    rows = session.execute(pushes.where(Trigger.before != "").order_by(Trigger.id.desc()).limit(_MOST_STEPS))
    steps = {row.before: row.sha for row in rows}
    sha = cause.sha
    for _ in steps:
        sha = steps.get(sha, "")
        if sha == newest.sha:
            return True
    return False


def _unfinished_of_branch(session: Session, run: Run) -> Sequence[Run]:
    """The older runs of a run's branch that it supersedes: those that look at where the branch was."""
    runs = (
        select(Run)
        .join(Trigger, Trigger.id == Run.trigger_id)
        .where(
            Run.repository_id == run.repository_id,
            Run.branch == run.branch,
            Run.pull_request == run.pull_request,
            Run.is_fork == run.is_fork,
            Run.transformers == run.transformers,
            Run.number < run.number,
            Run.status.in_(UNFINISHED),
            Trigger.kind.in_(_REPLACEABLE),
        )
    )
    return session.scalars(runs.with_for_update(of=Run).order_by(Run.number)).all()
