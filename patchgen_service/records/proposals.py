"""What became of the pull request for a release of transformers, the last time it was looked after."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from packaging.version import InvalidVersion, Version
from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_service.database.statements import insert_once, lock_row
from patchgen_service.database.tables import AuditEntry, PeriodicTask, Release, Repository
from patchgen_service.records.audit import write_audit

_ACTION = "release.propose"


@dataclass(frozen=True)
class ProposalNote:
    """What became of it.

    Attributes:
        state: ``open``, ``declined``, ``on main``, ``nothing`` or ``failed``.
        message: why it failed.
        files: how many files merge cleanly; ``causes`` is for how many reasons others do not.
    """

    version: str
    state: str
    at: datetime
    url: str = ""
    message: str = ""
    files: int = 0
    causes: int = 0


def note_proposal(session: Session, repository: Repository, actor: str, note: ProposalNote) -> None:
    """Note what became of it; the same failure again is noted once."""
    last = read_proposal(session, repository.id)
    if last is not None and note.state == "failed" and (last.version, last.message) == (note.version, note.message):
        return
    details = {name: getattr(note, name) for name in ("version", "state", "url", "message", "files", "causes")}
    write_audit(session, actor, _ACTION, note.at, f"transformers {note.version}", repository.id, **details)


def read_proposal(session: Session, repository_id: int) -> ProposalNote | None:
    """What became of it last; None where nothing was tried."""
    entries = select(AuditEntry).where(AuditEntry.action == _ACTION, AuditEntry.repository_id == repository_id)
    entry = session.scalar(entries.order_by(AuditEntry.id.desc()).limit(1))
    return ProposalNote(at=entry.at, **entry.details) if entry is not None else None


def find_newest_release(session: Session) -> str:
    """The newest release that is neither a candidate nor withdrawn; empty where none was seen."""
    releases = select(Release.version).where(Release.is_candidate.is_(False), Release.is_yanked.is_(False))
    return max(session.scalars(releases), key=_order, default="")


def is_due(session: Session, name: str, last: datetime, now: datetime) -> bool:
    """Whether something that is done at times was not done since the last of them.

    What is asked about for the first time waits for the next time, and so does what was done in a future from which
    the clock came back.
    """
    insert_once(session, PeriodicTask, name=name, done=now)
    task = lock_row(session, PeriodicTask, name)
    assert task is not None
    if task.done > now:
        task.done = now
    return task.done < last


def mark_done(session: Session, name: str, now: datetime) -> None:
    """Note that something was done now, which waits for its next time."""
    task = lock_row(session, PeriodicTask, name)
    if task is not None:
        task.done = now


def _order(version: str) -> Version:
    try:
        return Version(version)
    except InvalidVersion:
        return Version("0")
