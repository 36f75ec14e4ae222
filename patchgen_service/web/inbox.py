"""The inbox of webhooks: those that come at once are read, judged and stored together, before any is answered."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from patchgen_core.errors import PatchgenError
from patchgen_service.database.tables import Repository
from patchgen_service.forges.delivery import Delivery, Ignored, Refused
from patchgen_service.forges.github.client import api_url
from patchgen_service.forges.webhooks import read_delivery
from patchgen_service.records.deliveries import NewDelivery, store_deliveries
from patchgen_service.web.site import Site

_LOG = logging.getLogger("patchgen.web")
Reading = Delivery | Ignored | Refused
_MOST_AT_ONCE = 200
_MOST_BYTES_AT_ONCE = 64 * 1024 * 1024
_HANDLED = ("push", "pull_request", "rerun", "approve", "closed")


@dataclass(frozen=True)
class Webhook:
    """A webhook as it came: to the address of a repository, or to that of the app, which has none."""

    repository_id: int | None
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Inbox:
    """Takes webhooks: those that come while others are under way share the next transaction."""

    site: Site
    _waiting: deque[tuple[Webhook, asyncio.Future[Reading]]] = field(default_factory=deque)
    _task: asyncio.Task[None] | None = None

    async def take(self, webhook: Webhook) -> Reading:
        """What a webhook says, once it is on the disk where it asks for something."""
        answer: asyncio.Future[Reading] = asyncio.get_running_loop().create_future()
        self._waiting.append((webhook, answer))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work_off())
        return await answer

    async def _work_off(self) -> None:
        while self._waiting:
            webhooks, futures = zip(*self._next_part())
            answers: Sequence[Reading | Exception]
            try:
                answers = await run_in_threadpool(take_webhooks, self.site, webhooks)
            except Exception as error:
                answers = [error] * len(webhooks)
            for future, answer in zip(futures, answers):
                if future.cancelled():
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    def _next_part(self) -> list[tuple[Webhook, asyncio.Future[Reading]]]:
        part, size = [self._waiting.popleft()], 0
        while self._waiting and len(part) < _MOST_AT_ONCE and size < _MOST_BYTES_AT_ONCE:
            size += len(part[-1][0].body)
            part.append(self._waiting.popleft())
        return part


def take_webhooks(site: Site, webhooks: Sequence[Webhook]) -> list[Reading]:
    """What each webhook says; those that ask for something are stored, and whoever handles them is told."""
    with site.readings() as session:
        reader = _Reader(session, site)
        readings = [reader.read(webhook) for webhook in webhooks]
    new = [
        NewDelivery(repository_id, reading.delivery, vars(reading))
        for repository_id, reading in readings
        if isinstance(reading, Delivery)
    ]
    if new:
        with site.transactions() as session:
            store_deliveries(session, new, site.clock())
        site.work.handle_deliveries()
    return [reading for _, reading in readings]


@dataclass(frozen=True)
class _Taker:
    """What decides about the webhooks of a repository; without an id, it is one that is not there."""

    id: int = 0
    secret: str = ""
    is_active: bool = False
    branches: Sequence[str] = ()


class _Reader:
    """Reads webhooks; each repository is looked up once."""

    def __init__(self, session: Session, site: Site) -> None:
        self._session, self._site = session, site
        self._by_id: dict[int, _Taker] = {}
        self._by_name: dict[str, _Taker] = {}

    def read(self, webhook: Webhook) -> tuple[int, Reading]:
        """The repository that a webhook is of, and what it asks for there.

        Who knows the secret of a repository can say anything with it, and so approves nothing in somebody's name.
        """
        if webhook.repository_id is None:
            return self._read_for_app(webhook)
        try:
            taker = self._find(webhook.repository_id)
        except PatchgenError as error:
            _LOG.error("webhooks of repository %d are refused: %s", webhook.repository_id, error)
            return 0, Refused("The service cannot read the secret of this repository.", 503)
        reading = read_delivery(webhook.headers, webhook.body, taker.secret)
        if isinstance(reading, Delivery) and reading.kind == "approve":
            return taker.id, Ignored(reading.delivery, "GitHub reports buttons only at the address of the app.")
        return taker.id, _judge(reading, taker)

    def _read_for_app(self, webhook: Webhook) -> tuple[int, Reading]:
        reading = read_delivery(webhook.headers, webhook.body, self._site.settings.github_app.webhook_secret)
        if not isinstance(reading, Delivery):
            return 0, reading
        taker = self._find_on_github(reading.repository)
        if not taker.id:
            return 0, Ignored(reading.delivery, f"The service does not have the repository '{reading.repository}'.")
        return taker.id, _judge(reading, taker)

    def _find(self, repository_id: int) -> _Taker:
        if repository_id not in self._by_id:
            columns = select(Repository.id, Repository.webhook_secret, Repository.is_active, Repository.branches)
            row = self._session.execute(columns.where(Repository.id == repository_id)).one_or_none()
            taker = _Taker()
            if row is not None:
                taker = _Taker(row.id, self._site.secrets.decrypt(row.webhook_secret), row.is_active, row.branches)
            self._by_id[repository_id] = taker
        return self._by_id[repository_id]

    def _find_on_github(self, name: str) -> _Taker:
        """A repository of the app's GitHub."""
        if name not in self._by_name:
            query = select(Repository).where(Repository.name == name, Repository.forge == "github")
            one, app = self._session.scalar(query), self._site.settings.github_app
            is_there = one is not None and api_url(one.forge_url) == api_url(app.url)
            self._by_name[name] = _Taker(one.id, "", one.is_active, one.branches) if one and is_there else _Taker()
        return self._by_name[name]


def _judge(reading: Reading, taker: _Taker) -> Reading:
    """What a webhook asks for in a repository, which may be paused, and runs some branches."""
    if not isinstance(reading, Delivery):
        return reading
    if not taker.is_active:
        return Ignored(reading.delivery, "This repository is paused.")
    if reading.kind == "push" and not any(fnmatchcase(reading.branch, pattern) for pattern in taker.branches):
        return Ignored(reading.delivery, f"The branch '{reading.branch}' is not run.")
    if reading.kind not in _HANDLED or (not reading.sha and reading.kind != "closed"):
        return Ignored(reading.delivery, f"There is nothing to do for '{reading.kind}'.")
    return reading
