"""What became of the pull request for a release of transformers, the last time it was looked after."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from packaging.version import InvalidVersion, Version
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from patchgen_service.database.statements import insert_once, lock_row
from patchgen_service.database.tables import AuditEntry, PeriodicTask, Release, Repository
from patchgen_service.records.audit import write_audit

_ACTION = "release.propose"
_SHORTEST_WAIT, _LONGEST_WAIT = timedelta(minutes=1), timedelta(days=1)


@dataclass(frozen=True)
class ProposalNote:
    """What became of it.

    Attributes:
        state: ``waiting`` where somebody asked for it, then ``open``, ``declined``, ``on main``, ``nothing`` or
            ``failed``.
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
    """Note what became of it, or that somebody asked for it; the same failure or wish again is noted once."""
    last = read_proposal(session, repository.id)
    if last is not None and note.state in ("failed", "waiting") and last == replace(note, at=last.at):
        return
    details = {name: getattr(note, name) for name in ("version", "state", "url", "message", "files", "causes")}
    write_audit(session, actor, _ACTION, note.at, f"transformers {note.version}", repository.id, **details)


def read_proposal(session: Session, repository_id: int) -> ProposalNote | None:
    """What became of it last; None where nothing was tried."""
    entries = select(AuditEntry).where(AuditEntry.action == _ACTION, AuditEntry.repository_id == repository_id)
    entry = session.scalar(entries.order_by(AuditEntry.id.desc()).limit(1))
    return ProposalNote(at=entry.at, **entry.details) if entry is not None else None


def read_wishes(session: Session, now: datetime) -> list[tuple[int, str, str]]:
    """What somebody asked for a minute ago or more that nothing has become of: repository, version, and who it was.

    What failed to begin for a day is left alone.
    """
    last = select(func.max(AuditEntry.id)).where(AuditEntry.action == _ACTION, AuditEntry.at > now - _LONGEST_WAIT)
    entries = select(AuditEntry).where(
        AuditEntry.id.in_(last.group_by(AuditEntry.repository_id)), AuditEntry.at < now - _SHORTEST_WAIT
    )
    return [
        (entry.repository_id, entry.details["version"], entry.actor)
        for entry in session.scalars(entries.order_by(AuditEntry.id))
        if entry.repository_id is not None and entry.details["state"] == "waiting"
    ]


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
