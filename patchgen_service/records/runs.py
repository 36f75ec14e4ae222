"""The life of a run that was begun: it is carried out, gets its results, and always ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_service.database.statements import lock_row
from patchgen_service.database.tables import Run, Trigger
from patchgen_service.database.words import UNFINISHED, RunStatus
from patchgen_service.records.audit import write_audit
from patchgen_service.records.verdicts import decide
from patchgen_service.secrets import make_token, token_digest


class RunEnded(Exception):
    """A run takes nothing more: it has ended, or was removed together with its repository."""

    def __init__(self, run: Run | None) -> None:
        super().__init__(f"run {run.number} has ended: {run.status}" if run is not None else "the run was removed")


@dataclass(frozen=True)
class RunProblem:
    """Why a run could not be carried through: ``infrastructure_error`` or ``timed_out``, and a sentence."""

    status: RunStatus
    message: str


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


def is_pushed(session: Session, run: Run) -> bool:
    """Whether whoever began a run hands in its results; else the service carries it out."""
    return session.get_one(Trigger, run.trigger_id).kind == "push"


def expect_items(session: Session, run_id: str, project: str, count: int) -> None:
    """Note how many items a project's gate has."""
    run = lock_unfinished(session, run_id)
    run.expected_by = {**run.expected_by, project: count}
    run.expected = sum(run.expected_by.values())


def end_run(session: Session, run_id: str, now: datetime, problem: RunProblem | None = None) -> Run:
    """End a run as its results say, or as the problem does that kept it from getting them all.

    A run that has ended stays as it is; RunEnded when it was removed.
    """
    run = lock_run(session, run_id)
    if run.status in UNFINISHED:
        verdict = decide(session, run)
        if problem is not None:
            _close(run, problem.status, "; ".join(filter(None, (problem.message, verdict.counts))), now)
        else:
            _close(run, verdict.status, verdict.message, now)
    return run


def cancel_run(session: Session, run_id: str, actor: str, now: datetime, reason: str = "") -> Run:
    """End an unfinished run by hand, or for a reason; one that has ended stays as it is."""
    run = lock_run(session, run_id)
    if run.status in UNFINISHED:
        _close(run, "cancelled", reason or f"cancelled by {actor}", now)
        details = {"run": run.id, **({"reason": reason} if reason else {})}
        write_audit(session, actor, "run.cancel", now, f"run {run.number}", run.repository_id, **details)
    return run


def supersede_run(run: Run, newer: Run, now: datetime) -> None:
    """End an unfinished run because a newer one of its branch is there."""
    run.superseded_by = newer.id
    _close(run, "superseded", f"run {newer.number} is for a newer commit of '{run.branch}'", now)


def superseded_runs(session: Session, run_id: str) -> Sequence[Run]:
    """The runs that a run took the place of: whoever carries them out is to stop."""
    return session.scalars(select(Run).where(Run.superseded_by == run_id).order_by(Run.number)).all()


def silent_runs(session: Session, before: datetime) -> Sequence[Run]:
    """Unfinished runs of which nothing has been heard since then, but for those that wait to be carried out here."""
    last = Run.heard.is_not(None) & (Run.heard < before) | Run.heard.is_(None) & (Run.created < before)
    waits = (Run.status == "pending") & (Run.token == "")
    return session.scalars(select(Run).where(Run.status.in_(UNFINISHED), last, ~waits).order_by(Run.number)).all()


def lock_run(session: Session, run_id: str) -> Run:
    """A run that others cannot change until the transaction ends; RunEnded when it was removed."""
    run = lock_row(session, Run, run_id)
    if run is None:
        raise RunEnded(None)
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
