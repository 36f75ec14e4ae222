"""Webhook deliveries, handled in the background: what a forge told begins runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from patchgen_service.database.tables import Repository, WebhookDelivery
from patchgen_service.forges.delivery import Delivery
from patchgen_service.jobs.context import LOG, JobContext
from patchgen_service.records.deliveries import take_deliveries
from patchgen_service.records.runs import RunCause, begin_run

_AT_ONCE = 25
"""Of one transaction: whoever stores deliveries meanwhile waits for it."""
_BEGUN_AT_ONCE = 3
_LOOK_EVERY = 1.0
_LONGEST_SUBJECT = 300


class DeliveryHandler:
    """Handles deliveries in a thread of its own, as soon as it is told of one, and what an earlier process left.

    Args:
        begin: carries out a run that a delivery began.
    """

    def __init__(self, context: JobContext, begin: Callable[[str], object]) -> None:
        self._context, self._begin = context, begin
        self._told = threading.Event()
        self._thread = threading.Thread(target=self._work_until_stopped, name="handler of deliveries", daemon=True)

    def start(self) -> None:
        """Begin to handle."""
        self._thread.start()

    def stop(self) -> None:
        """Wait for the deliveries that are being handled; the context is stopping already."""
        self._told.set()
        self._thread.join()

    def tell(self) -> None:
        """Say that deliveries were stored."""
        self._told.set()

    def _work_until_stopped(self) -> None:
        context = self._context
        while not context.stopping.is_set():
            self._told.wait(_LOOK_EVERY)
            self._told.clear()
            try:
                while not context.stopping.is_set() and (seconds := self._handle_some()):
                    context.stopping.wait(seconds)
            except Exception:
                LOG.exception("deliveries could not be handled")

    def _handle_some(self) -> float:
        """Handle a part of what waits; returns for how long to leave what is left to others, 0 where nothing is.

        Runs that come alone are carried out at once; those of a flood are left to the clock, which finds them.
        """
        context, begin = self._context, time.monotonic()
        count, runs = context.change(lambda session: handle_deliveries(session, context.clock(), _AT_ONCE))
        if count <= _BEGUN_AT_ONCE:
            for run_id in runs:
                self._begin(run_id)
        return time.monotonic() - begin if count == _AT_ONCE else 0.0


def handle_deliveries(session: Session, now: datetime, most: int) -> tuple[int, list[str]]:
    """Do what the oldest deliveries ask for; returns how many there were, and the runs that they began or joined.

    One that cannot be handled is logged, and spoils no other.
    """
    deliveries = take_deliveries(session, most)
    runs: list[str] = []
    for stored in deliveries:
        try:
            with session.begin_nested():
                runs += _handle(session, stored, now)
        except DBAPIError:
            raise
        except Exception:
            LOG.exception("the delivery %s of repository %s is not handled", stored.delivery, stored.repository_id)
        stored.handled = now
    return len(deliveries), list(dict.fromkeys(runs))


def _handle(session: Session, stored: WebhookDelivery, now: datetime) -> list[str]:
    delivery = Delivery(**stored.content)
    repository = session.get_one(Repository, stored.repository_id)
    return [begin_run(session, repository, _cause(delivery), now).id]


def _cause(delivery: Delivery) -> RunCause:
    return RunCause(
        "manual" if delivery.kind == "rerun" else "webhook",
        delivery.delivery,
        delivery.branch,
        delivery.sha,
        base=delivery.base,
        before=delivery.before,
        pull_request=delivery.pull_request,
        is_fork=delivery.is_fork,
        actor=delivery.actor,
        subject=delivery.message.partition("\n")[0][:_LONGEST_SUBJECT],
    )
