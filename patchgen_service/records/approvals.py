"""Approvals: that somebody wants the regenerated files of a run, for exactly the digest that was shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from patchgen_core.files import text_digest
from patchgen_service.database.statements import lock_row
from patchgen_service.database.tables import Approval, Person, Run
from patchgen_service.database.words import COMPLETE, ApprovalState
from patchgen_service.records.audit import SERVICE, write_audit
from patchgen_service.records.files import list_files
from patchgen_service.records.runs import lock_run


class ApprovalRefused(Exception):
    """A run cannot be approved as it was shown; its text says why."""


@dataclass(frozen=True)
class RegeneratedFile:
    """A file of the repository as the run's configs make it; no ``digest`` where it is to be removed."""

    path: str
    digest: str | None


def regenerated_files(session: Session, run_id: str) -> tuple[RegeneratedFile, ...]:
    """What a run would change in the repository, by path."""
    uses = list_files(session, run_id, "generated", "removed")
    files = [RegeneratedFile(use.name, use.digest if use.kind == "generated" else None) for use in uses]
    return tuple(sorted(files, key=lambda file: file.path))


def digest_regenerated(session: Session, run_id: str) -> str:
    """What stands for the regenerated files of a run, their paths included; empty where there are none."""
    files = regenerated_files(session, run_id)
    return text_digest("\0".join(f"{file.path}\0{file.digest or '-'}" for file in files)) if files else ""


def approve(session: Session, run_id: str, person: Person, digest: str, now: datetime) -> Approval:
    """The approval of a run's regenerated files: a new one, pending, or the one that somebody gave before.

    ApprovalRefused when the files are not those that were shown, the run has not ended or was superseded, or a newer
    run of its branch has begun.
    """
    run = lock_run(session, run_id)
    known = session.scalar(select(Approval).filter_by(run_id=run.id, digest=digest))
    if known is not None and known.state != "refused":
        return known
    if reason := find_refusal(session, run_id, digest):
        raise ApprovalRefused(reason)
    if known is None:
        known = Approval(run_id=run.id, person_id=person.id, digest=digest, created=now)
        session.add(known)
    known.person_id, known.state, known.message, known.created, known.ended = person.id, "pending", "", now, None
    session.flush()
    subject = f"run {run.number}"
    write_audit(session, person.name, "run.approve", now, subject, run.repository_id, run=run.id, digest=digest)
    return known


def end_approval(
    session: Session, approval_id: int, state: ApprovalState, now: datetime, sha: str = "", message: str = ""
) -> Approval:
    """Note what became of an approval; one that has come to something stays as it is."""
    approval = lock_row(session, Approval, approval_id)
    assert approval is not None, "an approval is not removed while it is carried out"
    if approval.state == "pending":
        approval.state, approval.sha, approval.message, approval.ended = state, sha, message, now
        run = session.get_one(Run, approval.run_id)
        details = {"run": run.id, "digest": approval.digest, "sha": sha, "message": message}
        write_audit(session, SERVICE, f"approval.{state}", now, f"run {run.number}", run.repository_id, **details)
    return approval


def find_refusal(session: Session, run_id: str, digest: str) -> str:
    """Why a run cannot be approved with this digest; empty where it can."""
    run = session.get_one(Run, run_id)
    if run.status not in COMPLETE:
        return f"run {run.number} is {run.status.replace('_', ' ')}: only a complete run can be approved"
    if run.transformers:
        return f"run {run.number} is with transformers {run.transformers}, not with the release of its branch"
    files = digest_regenerated(session, run.id)
    if not files:
        return f"run {run.number} has no regenerated files"
    if digest != files:
        return f"the regenerated files of run {run.number} are no longer those that were shown"
    newest = session.scalar(
        select(func.max(Run.number)).where(
            Run.repository_id == run.repository_id,
            Run.branch == run.branch,
            Run.pull_request == run.pull_request,
            Run.is_fork == run.is_fork,
            Run.transformers == run.transformers,
            Run.status != "superseded",
            Run.sha != run.sha,
        )
    )
    if newest is not None and newest > run.number:
        return f"run {newest} is for a newer commit of '{run.branch}'"
    return ""
