"""What every page, the API and the webhooks work with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Protocol

from patchgen_service.database.engine import Transactions
from patchgen_service.secrets import SecretBox
from patchgen_service.settings import ServiceSettings
from patchgen_service.store import Store


def utc_now() -> datetime:
    """The time on this machine's clock."""
    return datetime.now(timezone.utc)


class Work(Protocol):
    """What carries out what pages and the API ask for; each returns at once."""

    def begin(self, run_id: str) -> None:
        """Carry out a run that was begun."""

    def tell(self, run_id: str) -> None:
        """Tell elsewhere how a run is now that others carry out: pending, red already, or at its end."""

    def cancel(self, run_id: str) -> None:
        """Stop a run that was cancelled or superseded."""

    def approve(self, approval_id: int) -> None:
        """Carry out an approval."""

    def handle_deliveries(self) -> None:
        """Do what webhooks asked for that were stored."""

    def propose_release(self, repository_id: int, version: str, actor: str) -> None:
        """Propose a release of transformers to a repository as a pull request; the newest where none is named."""

    def forget_runs(self, runs: Sequence[str]) -> None:
        """Stop runs whose repository was removed, and remove what nothing needs any more."""


class NoWork:
    """Leaves everything to processes that look into the database by themselves."""

    def begin(self, run_id: str) -> None:
        """Nothing to do here."""

    def tell(self, run_id: str) -> None:
        """Nothing to do here."""

    def cancel(self, run_id: str) -> None:
        """Nothing to do here."""

    def approve(self, approval_id: int) -> None:
        """Nothing to do here."""

    def handle_deliveries(self) -> None:
        """Nothing to do here."""

    def propose_release(self, repository_id: int, version: str, actor: str) -> None:
        """Nothing to do here."""

    def forget_runs(self, runs: Sequence[str]) -> None:
        """Nothing to do here."""


@dataclass(frozen=True)
class Site:
    """A running service, as seen by its pages.

    Attributes:
        readings: begins a transaction that only reads.
        transactions: begins one that writes.
        hosts: names that a request may call this service by; none for any.
        is_secure: whether browsers reach it by https, so that cookies are sent by that alone.
        clock: the time now.
        work: carries out runs and approvals.
    """

    settings: ServiceSettings
    secrets: SecretBox
    store: Store
    readings: Transactions
    transactions: Transactions
    hosts: frozenset[str] = frozenset()
    is_secure: bool = False
    clock: Callable[[], datetime] = utc_now
    work: Work = field(default_factory=NoWork)
