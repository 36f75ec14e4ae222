"""The table of what forges told, which is handled after it was stored."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from patchgen_service.database.base import Base


class WebhookDelivery(Base):
    """What a forge told, as soon as its signature was right; what it asks for is done afterwards.

    Attributes:
        delivery: the forge's id of it, by which it is stored once for the repository.
        content: the fields of :class:`~patchgen_service.forges.delivery.Delivery`.
        handled: when what it asks for was done; none while that is still to be.
    """

    __tablename__ = "webhook_delivery"
    __table_args__ = (UniqueConstraint("repository_id", "delivery"), Index(None, "handled", "id"))

    id: Mapped[int] = mapped_column(primary_key=True)
    repository_id: Mapped[int] = mapped_column(ForeignKey("repository.id", ondelete="CASCADE"))
    delivery: Mapped[str] = mapped_column(String(200))
    content: Mapped[dict[str, Any]] = mapped_column(default=dict)
    received: Mapped[datetime]
    handled: Mapped[datetime | None]
