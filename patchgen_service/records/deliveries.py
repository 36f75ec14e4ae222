"""Webhook deliveries: stored at once, handled afterwards, each once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_service.database.statements import insert_all_once, lock_name
from patchgen_service.database.tables import Repository, WebhookDelivery


@dataclass(frozen=True)
class NewDelivery:
    """A delivery to be stored; ``content`` is what the forge told, as values that JSON has."""

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


def take_deliveries(session: Session, most: int) -> Sequence[WebhookDelivery]:
    """The oldest deliveries that are to be handled; other processes wait until the transaction ends."""
    lock_name(session, "webhook deliveries")
    waiting = select(WebhookDelivery).where(WebhookDelivery.handled.is_(None))
    return session.scalars(waiting.order_by(WebhookDelivery.id).limit(most)).all()
