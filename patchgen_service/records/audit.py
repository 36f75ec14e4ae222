"""Who did what."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from patchgen_service.database.tables import AuditEntry

SERVICE = "service"
"""The actor where nobody asked for something: a schedule, a release, retention."""


def write_audit(
    session: Session,
    actor: str,
    action: str,
    now: datetime,
    subject: str = "",
    repository_id: int | None = None,
    **details: Any,
) -> None:
    """Note that ``actor`` did something, such as ``run.cancel``; it is remembered if what they did is."""
    session.add(
        AuditEntry(at=now, actor=actor, action=action, subject=subject, repository_id=repository_id, details=details)
    )
