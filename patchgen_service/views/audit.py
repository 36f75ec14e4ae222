"""Who did what, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from patchgen_service.database.tables import AuditEntry, Repository
from patchgen_service.views.lines import Visible


@dataclass(frozen=True)
class AuditLine:
    """An entry; ``repository`` is empty where it concerns none."""

    id: int
    at: datetime
    actor: str
    action: str
    subject: str
    repository: str
    details: Mapping[str, Any]


def read_audit(
    session: Session, visible: Visible, limit: int = 100, before: int | None = None, words: str = ""
) -> tuple[AuditLine, ...]:
    """The newest entries, those before an entry's id where one is given.

    ``words`` must all be in the actor, action or subject. Who may not see everything sees what concerns repositories.
    """
    query = (
        select(
            AuditEntry.id,
            AuditEntry.at,
            AuditEntry.actor,
            AuditEntry.action,
            AuditEntry.subject,
            Repository.name,
            AuditEntry.details,
        )
        .outerjoin(Repository, Repository.id == AuditEntry.repository_id)
        .order_by(AuditEntry.id.desc())
        .limit(limit)
    )
    if visible is not None:
        query = query.where(AuditEntry.repository_id.in_(sorted(visible)))
    if before is not None:
        query = query.where(AuditEntry.id < before)
    for word in words.split():
        columns = (AuditEntry.actor, AuditEntry.action, AuditEntry.subject)
        query = query.where(or_(*(column.icontains(word, autoescape=True) for column in columns)))
    rows = session.execute(query)
    return tuple(
        AuditLine(number, at, actor, action, subject, name or "", details)
        for number, at, actor, action, subject, name, details in rows
    )
