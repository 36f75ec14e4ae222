"""What is told elsewhere about runs, and approvals: the room ``posting``, at work in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import cast

import httpx
from sqlalchemy.orm import Session

from patchgen_service.database.engine import Transactions
from patchgen_service.database.tables import Approval, Repository, Run
from patchgen_service.forges.clients import make_client
from patchgen_service.git.writing import Author
from patchgen_service.isolation.box import Kind
from patchgen_service.isolation.probe import find_isolation
from patchgen_service.jobs.context import LOG, JobContext, read_clock
from patchgen_service.jobs.run_job import pull_request_ref
from patchgen_service.jobs.service import Jobs
from patchgen_service.posting.approving import Workshop, carry_out_approval
from patchgen_service.posting.queueing import queue_run_posts
from patchgen_service.posting.sending import Postage, send_due_posts
from patchgen_service.records.repositories import read_secret
from patchgen_service.secrets import SecretBox
from patchgen_service.settings import ServiceSettings
from patchgen_service.store import Store

SERVICE = "service"
"""The name of the process that does what only one does; workers have others."""
_SEND_EVERY = 1.0
_SECONDS_FOR_AN_ANSWER = 30.0
_COMMITTER = Author("patchgen", "patchgen@localhost")


def queue_posts_of(
    transactions: Transactions, settings: ServiceSettings, clock: Callable[[], datetime]
) -> Callable[[str], object]:
    """What queues the posts of a run in its present status, for :attr:`JobContext.tell_status`."""

    def queue(run_id: str) -> None:
        try:
            with transactions() as session:
                queue_run_posts(session, run_id, settings.base_url, clock())
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
    tell = queue_posts_of(transactions, settings, clock)
    context = JobContext(settings, transactions, store, secrets, isolation, worker, clock, tell_status=tell)
    if worker != SERVICE:
        return Jobs(context, settings.workers, has_clock=False)
    sender = Sender(context)
    return Jobs(context, settings.workers, approve=sender.approve, others=[sender])


class Sender:
    """Sends what is due, and carries out approvals; one process of a service has it."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._http = httpx.Client(timeout=_SECONDS_FOR_AN_ANSWER, follow_redirects=False)
        self._postage = Postage(self._http, context.settings.mail, context.secrets)
        self._thread = threading.Thread(target=self._send_until_stopped, name="sender of posts", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Wait for the post that is being sent; the context is stopping already."""
        self._thread.join(_SECONDS_FOR_AN_ANSWER)

    def _send_until_stopped(self) -> None:
        context = self._context
        while not context.stopping.wait(_SEND_EVERY):
            try:
                send_due_posts(context.transactions, self._postage, context.clock)
            except Exception:
                LOG.exception("posts could not be sent")

    def approve(self, approval_id: int) -> None:
        """Carry out an approval."""
        context = self._context
        workshop = context.change(lambda session: self._open_workshop(session, approval_id))
        approval = carry_out_approval(context.transactions, workshop, approval_id, context.clock())
        LOG.info("approval %s: %s", approval_id, approval.state)

    def _open_workshop(self, session: Session, approval_id: int) -> Workshop:
        context = self._context
        run = session.get_one(Run, session.get_one(Approval, approval_id).run_id)
        repository = session.get_one(Repository, run.repository_id)
        token = read_secret(repository, "forge_token", context.secrets)
        client = make_client(self._http, repository.forge, repository.forge_url, repository.name, token)
        ref = pull_request_ref(repository, run)
        return Workshop(
            context.open_mirror(repository), client, context.store, _COMMITTER, context.settings.base_url, ref
        )
