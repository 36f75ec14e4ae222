"""Webhook deliveries, handled in the background: what a forge told begins, cancels or approves."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Protocol

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from patchgen_service.database.tables import Repository
from patchgen_service.forges.delivery import Delivery
from patchgen_service.jobs.context import LOG, JobContext, is_passing
from patchgen_service.posting.answering import DeliveryAnswer, answer_deliveries
from patchgen_service.records.deliveries import StoredDelivery, mark_handled, take_deliveries

_AT_ONCE = 100
"""Of one transaction: whoever stores deliveries meanwhile waits for it."""
_BEGUN_AT_ONCE = 3
_LOOK_EVERY = 1.0


class Actions(Protocol):
    """What carries out what deliveries ask for; each returns at once."""

    def begin(self, run_id: str) -> None:
        """Carry out a run that was begun."""

    def cancel(self, run_id: str) -> None:
        """Stop a run that was cancelled."""

    def approve(self, approval_id: int) -> None:
        """Carry out an approval."""


class DeliveryHandler:
    """Handles deliveries in a thread of its own, as soon as it is told of one, and what an earlier process left."""

    def __init__(self, context: JobContext, actions: Actions) -> None:
        self._context, self._actions = context, actions
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
                    if self._told.is_set():  # more come at this moment, and are to be stored first
                        self._told.clear()
                        context.stopping.wait(seconds)
            except Exception:
                LOG.exception("deliveries could not be handled")

    def _handle_some(self) -> float:
        """Handle a part of what waits; returns for how long to leave what is left to others, 0 where nothing is.

        Runs that come alone are carried out at once; those of a flood are left to the clock, which finds them.
        """
        context, started = self._context, time.monotonic()
        base_url = context.settings.base_url
        answers = context.change(lambda session: handle_deliveries(session, base_url, context.clock(), _AT_ONCE))
        count = len(answers)
        pending = dict.fromkeys(answer.run for answer in answers if answer.is_pending)
        if len(pending) <= _BEGUN_AT_ONCE:
            for run_id in pending:
                self._actions.begin(run_id)
        for answer in answers:
            for run_id in answer.cancelled:
                self._actions.cancel(run_id)
            if answer.approval is not None:
                self._actions.approve(answer.approval)
        return time.monotonic() - started if count == _AT_ONCE else 0.0


def handle_deliveries(session: Session, base_url: str, now: datetime, most: int) -> list[DeliveryAnswer]:
    """Do what the oldest deliveries ask for, and return what came of each, by repository.

    One that cannot be handled is logged, and spoils no other.
    """
    waiting = take_deliveries(session, most)
    answers = []
    for repository_id, group in groupby(sorted(waiting, key=_repository_of), _repository_of):
        answers += _answer_group(session, repository_id, list(group), base_url, now)
    mark_handled(session, waiting, now)
    return answers


def _answer_group(
    session: Session, repository_id: int, group: Sequence[StoredDelivery], base_url: str, now: datetime
) -> list[DeliveryAnswer]:
    """What came of deliveries of a repository: of all of them together, or of one by one where that fails."""
    try:
        with session.begin_nested():
            repository = session.get_one(Repository, repository_id)
            deliveries = [Delivery(**stored.content) for stored in group]
            return answer_deliveries(session, repository, deliveries, base_url, now)
    except Exception as error:
        if isinstance(error, SQLAlchemyError) and is_passing(error):
            raise
        if len(group) > 1:
            return [_answer_group(session, repository_id, [one], base_url, now)[0] for one in group]
        LOG.exception("the delivery %s of repository %s is not handled", group[0].delivery, repository_id)
        return [DeliveryAnswer()]


def _repository_of(stored: StoredDelivery) -> int:
    return stored.repository_id
