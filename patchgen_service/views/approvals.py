"""What waits for an approval, and what was approved."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from patchgen_service.database.tables import Approval, ArtifactUse, Person, Repository, Run
from patchgen_service.views.lines import RunLine, Visible, is_visible, read_lines
from patchgen_service.views.overview import is_newest_verdict


@dataclass(frozen=True)
class ApprovalEntry:
    """An approval, with the run that it is of."""

    id: int
    person: str
    digest: str
    state: str
    sha: str
    message: str
    created: datetime
    ended: datetime | None
    run: RunLine


@dataclass(frozen=True)
class Approvals:
    """Runs at the head of their branches whose regenerated files nobody approved yet, and the last approvals."""

    waiting: tuple[RunLine, ...]
    entries: tuple[ApprovalEntry, ...]


def read_waiting(session: Session, visible: Visible) -> tuple[RunLine, ...]:
    """The runs that can be approved, newest first: red ones that hold files as they should be."""
    return tuple(
        read_lines(
            session,
            is_newest_verdict(),
            Run.status.in_(("drifted", "broken")),
            exists().where(ArtifactUse.run_id == Run.id, ArtifactUse.kind == "generated"),
            ~exists().where(Approval.run_id == Run.id, Approval.state != "refused"),
            is_visible(visible),
        )
    )


def read_approval_list(session: Session, visible: Visible, limit: int = 100) -> Approvals:
    """What waits, and the last approvals."""
    query = (
        select(
            Approval.id,
            Person.name,
            Approval.digest,
            Approval.state,
            Approval.sha,
            Approval.message,
            Approval.created,
            Approval.ended,
            Approval.run_id,
        )
        .join(Person, Person.id == Approval.person_id)
        .join(Run, Run.id == Approval.run_id)
        .join(Repository, Repository.id == Run.repository_id)
        .where(is_visible(visible))
        .order_by(Approval.id.desc())
        .limit(limit)
    )
    rows: list[tuple[Any, ...]] = [tuple(row) for row in session.execute(query)]
    runs = {line.id: line for line in read_lines(session, Run.id.in_({row[-1] for row in rows}))}
    entries = tuple(ApprovalEntry(*(*row[:-1], runs[row[-1]])) for row in rows)
    return Approvals(read_waiting(session, visible), entries)
