"""What a service does beside answering: runs, approvals, posts."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import cast

import httpx
from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from patchgen_service.database.tables import Approval, Post, Repository, Run
from patchgen_service.database.words import UNFINISHED
from patchgen_service.forges.clients import make_client
from patchgen_service.git.writing import Author
from patchgen_service.isolation.box import Kind
from patchgen_service.isolation.probe import find_isolation
from patchgen_service.jobs.run_job import make_order
from patchgen_service.jobs.service import Chore, Jobs
from patchgen_service.jobs.workshop import Workshop
from patchgen_service.posting import approving
from patchgen_service.posting.queueing import queue_run_posts
from patchgen_service.posting.sending import Postage, send_due_posts
from patchgen_service.records.repositories import read_secret
from patchgen_service.web.site import Site

_FORGE_SECONDS = 20
_TOLD_AT_ONCE = 20
_COMMITTER = Author("patchgen service", "patchgen@localhost")


def make_jobs(site: Site, worker: str = "service", has_clock: bool = True) -> Jobs:
    """The background work of a site."""
    settings = site.settings
    kinds = ("bubblewrap", "podman") if settings.isolation == "auto" else (settings.isolation,)
    http = httpx.Client(timeout=_FORGE_SECONDS)
    postage = Postage(http, settings.mail, site.secrets)

    def announce(session: Session, run_id: str) -> None:
        queue_run_posts(session, run_id, settings.base_url, site.clock())

    def tell() -> None:
        """Queue what is to be said of runs under way, carry out approvals that wait, and send what is due."""
        is_told = exists().where(Post.run_id == Run.id)
        untold = select(Run.id).join(Repository, Repository.id == Run.repository_id)
        untold = untold.where(Run.status.in_(UNFINISHED), Repository.forge != "none", ~is_told).limit(_TOLD_AT_ONCE)
        with site.readings() as session:
            runs = session.scalars(untold).all()
            waiting = session.scalars(select(Approval.id).where(Approval.state == "pending")).all()
        for run_id in runs:
            with site.transactions() as session:
                announce(session, run_id)
        for approval_id in waiting:
            jobs.approve(approval_id)
        send_due_posts(site.transactions, postage, site.clock)

    shop = Workshop(
        settings,
        site.transactions,
        site.store,
        site.secrets,
        find_isolation(cast("tuple[Kind, ...]", kinds)),
        worker,
        site.clock,
        after_run=lambda run_id: shop.change(lambda session: announce(session, run_id)),
    )
    jobs = Jobs(
        shop,
        settings.workers,
        has_clock,
        {"posts": Chore(timedelta(seconds=3), tell)},
        lambda approval_id: _approve(site, shop, http, approval_id),
    )
    return jobs


def _approve(site: Site, shop: Workshop, http: httpx.Client, approval_id: int) -> None:
    """Carry out an approval, and tell what came of it."""
    with site.transactions() as session:
        run = session.scalars(select(Run).join(Approval, Approval.run_id == Run.id).filter(Approval.id == approval_id))
        row = run.one()
        repository = session.get_one(Repository, row.repository_id)
        token = read_secret(repository, "forge_token", site.secrets)
        client = make_client(http, repository.forge, repository.forge_url, repository.name, token)
        mirror = shop.open_mirror(repository)
        ref = make_order(repository, row).ref
    place = approving.Workshop(mirror, client, site.store, _COMMITTER, site.settings.base_url, ref)
    approving.carry_out_approval(site.transactions, place, approval_id, site.clock())


def work_until(site: Site, name: str, stopped: threading.Event) -> None:
    """Carry out runs of a service whose pages are another process, until told to stop."""
    jobs = make_jobs(site, name, has_clock=False)
    jobs.start()
    stopped.wait()
    jobs.stop()
