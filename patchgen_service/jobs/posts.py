"""What is told elsewhere about runs, and approvals: the room ``posting``, at work in the background."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import cast

import httpx
from sqlalchemy.orm import Session

from patchgen_service.database.engine import Transactions
from patchgen_service.database.tables import Approval, Repository, Run
from patchgen_service.forges.access import ForgeAccess, open_access
from patchgen_service.forges.api import ForgeError, make_http_client
from patchgen_service.forges.client import ForgeClient
from patchgen_service.isolation.box import Kind
from patchgen_service.isolation.probe import find_isolation
from patchgen_service.jobs.context import LOG, JobContext, read_clock
from patchgen_service.jobs.proposals import COMMITTER, Proposer
from patchgen_service.jobs.run_job import pull_request_ref
from patchgen_service.jobs.service import Chore, Jobs
from patchgen_service.posting.approving import Workshop, carry_out_approval
from patchgen_service.posting.queueing import queue_run_posts
from patchgen_service.posting.sending import Postage, send_due_posts
from patchgen_service.secrets import SecretBox
from patchgen_service.settings import ServiceSettings
from patchgen_service.store import Store

SERVICE = "service"
"""The name of the process that does what only one does; workers have others."""
_SEND_EVERY = 0.5
"""How often it is looked for posts that workers elsewhere queued, or that are to be tried again."""
_SENT_AT_ONCE, _SEND_SELDOM = 3, 5.0
"""A forge takes its time: the status, the check run and the comment of a run are not sent one after the other."""
_SECONDS_FOR_AN_ANSWER = 30.0
_PROPOSE_EVERY = timedelta(minutes=15)
"""How often it is looked whether a weekly pull request is due, and one tried again that was put off."""
_WISHES_EVERY = timedelta(minutes=1)


def queue_posts_of(
    transactions: Transactions,
    settings: ServiceSettings,
    clock: Callable[[], datetime],
    access: ForgeAccess,
    store: Store,
    is_due: threading.Event,
) -> Callable[[str], object]:
    """What queues the posts of a run in its present status, for :attr:`JobContext.tell_status`.

    ``is_due`` is set then: whoever sends need not look for them.
    """

    def queue(run_id: str) -> None:
        try:
            with transactions() as session:
                queue_run_posts(session, run_id, settings.base_url, clock(), access, store)
            is_due.set()
        except Exception:  # the run itself is well; the posts of its next status are queued anew
            LOG.exception("the posts of run %s could not be queued", run_id)

    return queue


def make_jobs(
    settings: ServiceSettings,
    transactions: Transactions,
    store: Store,
    secrets: SecretBox,
    worker: str = SERVICE,
    clock: Callable[[], datetime] = read_clock,
) -> Jobs:
    """The background work of a service, or of a worker of another name, which leaves to it what is done once.

    It tries how code is isolated here, which takes a moment.
    """
    kinds: Sequence[Kind] = ("bubblewrap", "podman")
    if settings.isolation != "auto":
        kinds = (cast("Kind", settings.isolation),)
    isolation = find_isolation(kinds)
    for problem in isolation.problems:
        LOG.warning("runs are not isolated by %s", problem)
    http = make_http_client()
    access = open_access(settings, secrets, http, clock)
    is_due = threading.Event()
    tell = queue_posts_of(transactions, settings, clock, access, store, is_due)
    context = JobContext(
        settings, transactions, store, secrets, isolation, worker, clock, tell_status=tell, app=access.app
    )
    if worker != SERVICE:
        elsewhere = replace(context, service_url=settings.base_url)
        return Jobs(elsewhere, settings.workers, has_clock=False)
    sender = Sender(context, http, is_due)
    proposer = Proposer(context, http)
    chores = {
        "proposals": Chore(_PROPOSE_EVERY, proposer.propose_due),
        "wishes": Chore(_WISHES_EVERY, proposer.propose_wishes),
    }
    return Jobs(
        context,
        settings.workers,
        chores=chores,
        approve=sender.approve,
        propose=proposer.propose,
        others=[sender],
    )


class Sender:
    """Sends what is due, and carries out approvals; one process of a service has it.

    ``is_due`` wakes it.
    """

    def __init__(self, context: JobContext, http: httpx.Client, is_due: threading.Event) -> None:
        self._context, self._http, self._is_due = context, http, is_due
        self._postage = Postage(http, context.settings.mail, context.secrets, context.app)
        seconds = (_SEND_EVERY, *[_SEND_SELDOM] * (_SENT_AT_ONCE - 1))
        self._threads = [
            threading.Thread(target=self._send_until_stopped, args=(every,), name="sender of posts", daemon=True)
            for every in seconds
        ]

    def start(self) -> None:
        """Begin to send."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Wait for the posts that are being sent; the context is stopping already."""
        self._is_due.set()
        until = time.monotonic() + _SECONDS_FOR_AN_ANSWER
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _send_until_stopped(self, every: float) -> None:
        context = self._context
        while True:
            self._is_due.wait(every)
            self._is_due.clear()
            if context.stopping.is_set():
                return
            try:
                send_due_posts(context.transactions, self._postage, context.clock)
            except Exception:
                LOG.exception("posts could not be sent")

    def approve(self, approval_id: int) -> None:
        """Carry out an approval."""
        context = self._context
        run, repository = context.change(lambda session: _read_approved(session, approval_id))
        workshop = Workshop(
            context.open_mirror(repository),
            self._open_client(repository),
            context.store,
            COMMITTER,
            context.settings.base_url,
            pull_request_ref(repository, run),
        )
        approval = carry_out_approval(context.transactions, workshop, approval_id, context.clock())
        LOG.info("approval %s: %s", approval_id, approval.state)
        context.tell_status(approval.run_id)

    def _open_client(self, repository: Repository) -> ForgeClient | None:
        """The client of a repository; none where its forge lets the service in no more."""
        try:
            return self._context.access.open_client(self._http, repository)
        except ForgeError as error:
            if not error.is_final:
                raise
            LOG.warning("%s: %s", repository.name, error)
            return None


def _read_approved(session: Session, approval_id: int) -> tuple[Run, Repository]:
    run = session.get_one(Run, session.get_one(Approval, approval_id).run_id)
    return run, session.get_one(Repository, run.repository_id)
