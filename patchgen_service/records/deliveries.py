"""Webhook deliveries: stored at once, handled afterwards, each once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from patchgen_service.database.statements import insert_all_once, lock_name, split
from patchgen_service.database.tables import Repository, WebhookDelivery


@dataclass(frozen=True)
class NewDelivery:
    """A delivery to be stored; ``content`` is what the forge told, as values that JSON has."""

    repository_id: int
    delivery: str
    content: Mapping[str, Any]


@dataclass(frozen=True)
class StoredDelivery:
    """A delivery that was stored, with its number."""

    id: int
    repository_id: int
    delivery: str
    content: Mapping[str, Any]


def store_deliveries(session: Session, deliveries: Sequence[NewDelivery], now: datetime) -> None:
    """Store deliveries. One that was stored before is left as it is, one of a repository that is gone is left out."""
    ids = {new.repository_id for new in deliveries}
    known = set(session.scalars(select(Repository.id).where(Repository.id.in_(ids))))
    rows = [
        {"repository_id": new.repository_id, "delivery": new.delivery, "content": dict(new.content), "received": now}
        for new in deliveries
        if new.repository_id in known
    ]
    insert_all_once(session, WebhookDelivery, rows)


def take_deliveries(session: Session, most: int) -> Sequence[StoredDelivery]:
    """The oldest deliveries that are to be handled; other processes wait until the transaction ends."""
    lock_name(session, "webhook deliveries")
    table = WebhookDelivery
    columns = select(table.id, table.repository_id, table.delivery, table.content)
    waiting = columns.where(table.handled.is_(None)).order_by(table.id).limit(most)
    return [StoredDelivery(*row) for row in session.execute(waiting)]


def read_times(session: Session, repository_id: int, names: Sequence[str]) -> list[str]:
    """When that happened what stored deliveries tell of, as forges say; those that say nothing are left out."""
    table = WebhookDelivery
    contents = select(table.content).where(table.repository_id == repository_id, table.delivery.in_(names))
    return [content["happened"] for content in session.scalars(contents) if content.get("happened")]


def mark_handled(session: Session, deliveries: Sequence[StoredDelivery], now: datetime) -> None:
    """Note that what deliveries ask for was done."""
    for ids in split(stored.id for stored in deliveries):
        handled = update(WebhookDelivery).where(WebhookDelivery.id.in_(ids)).values(handled=now)
        session.execute(handled, execution_options={"synchronize_session": False})
