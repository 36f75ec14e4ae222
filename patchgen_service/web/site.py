"""What every page, the API and the webhooks work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone

from patchgen_service.database.engine import Transactions
from patchgen_service.secrets import SecretBox
from patchgen_service.settings import ServiceSettings
from patchgen_service.store import Store


def utc_now() -> datetime:
    """The time on this machine's clock."""
    return datetime.now(timezone.utc)


@dataclass(frozen=True)
class Site:
    """A running service, as seen by its pages.

    Attributes:
        readings: begins a transaction that only reads.
        transactions: begins one that writes.
        hosts: names that a request may call this service by; none for any.
        is_secure: whether browsers reach it by https, so that cookies are sent by that alone.
        clock: the time now.
    """

    settings: ServiceSettings
    secrets: SecretBox
    store: Store
    readings: Transactions
    transactions: Transactions
    hosts: frozenset[str] = frozenset()
    is_secure: bool = False
    clock: Callable[[], datetime] = utc_now
