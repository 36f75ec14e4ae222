"""Webhooks: each is checked, stored and answered at once; jobs do what it asks for afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from functools import partial

from sqlalchemy import select
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from patchgen_service.database.tables import Repository
from patchgen_service.forges.delivery import Delivery, Ignored, Refused
from patchgen_service.forges.github.client import api_url
from patchgen_service.forges.webhooks import LARGEST, read_delivery
from patchgen_service.records.deliveries import NewDelivery, store_deliveries
from patchgen_service.web.rates import RateLimit
from patchgen_service.web.site import Site
from patchgen_service.web.visits import LARGEST_KEY

Reading = Delivery | Ignored | Refused
Reader = Callable[[Mapping[str, str], bytes], tuple[int, Reading]]
"""What gives the repository that a delivery is of, and what it asks for."""
_MOST_AT_ONCE = 200
_HANDLED = ("push", "pull_request", "rerun", "approve", "closed")


@dataclass
class Inbox:
    """Stores deliveries: those that come while a transaction is under way share the next."""

    site: Site
    _waiting: list[tuple[NewDelivery, asyncio.Future[None]]] = field(default_factory=list)
    _task: asyncio.Task[None] | None = None

    async def store(self, new: NewDelivery) -> None:
        """Store a delivery, and come back once it is on the disk."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((new, answer))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work_off())
        await answer

    async def _work_off(self) -> None:
        while self._waiting:
            part, self._waiting = self._waiting[:_MOST_AT_ONCE], self._waiting[_MOST_AT_ONCE:]
            problem: Exception | None = None
            try:
                await run_in_threadpool(_store, self.site, [new for new, _ in part])
            except Exception as error:
                problem = error
            for _, answer in part:
                if answer.cancelled():
                    continue
                if problem is None:
                    answer.set_result(None)
                else:
                    answer.set_exception(problem)


async def receive(request: Request) -> Response:
    """Take a webhook of a repository: 202 once it is stored."""
    repository_id = min(request.path_params["repository"], LARGEST_KEY)
    return await _take(request, str(repository_id), partial(_read, request.app.state.site, repository_id))


async def receive_app(request: Request) -> Response:
    """Take a webhook of the app on GitHub, which has one address for all repositories: it names whose it is.

    GitHub tells of pressed buttons here alone.
    """
    return await _take(request, "app", partial(_read_app, request.app.state.site))


async def _take(request: Request, place: str, read: Reader) -> Response:
    inbox: Inbox = request.app.state.inbox
    key = f"{request.client.host if request.client else ''}/{place}"
    wrong: RateLimit = request.app.state.limits.wrong_signatures
    if wrong.is_used_up(key, time.monotonic()):
        return _answer(429, "Too many deliveries with a wrong signature.")
    body = await _read_body(request)
    if body is None:
        return _answer(413, f"A delivery has at most {LARGEST >> 20} MiB.", {"connection": "close"})
    repository_id, reading = await run_in_threadpool(read, dict(request.headers), body)
    if isinstance(reading, Refused):
        if reading.status in (401, 404):
            wrong.take(key, time.monotonic())
        return _answer(reading.status, reading.reason)
    if isinstance(reading, Ignored):
        return _answer(202, reading.reason)
    await inbox.store(NewDelivery(repository_id, reading.delivery, asdict(reading)))
    return JSONResponse({"delivery": reading.delivery}, 202)


async def _read_body(request: Request) -> bytes | None:
    """What was sent; None where that is too much, of which as little as possible is read."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > LARGEST:
        return None
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > LARGEST:
            return None
        parts.append(part)
    return b"".join(parts)


def _read(site: Site, repository_id: int, headers: Mapping[str, str], body: bytes) -> tuple[int, Reading]:
    query = select(Repository.webhook_secret, Repository.is_active, Repository.branches)
    with site.readings() as session:
        row = session.execute(query.where(Repository.id == repository_id)).one_or_none()
    encrypted, is_active, branches = row or ("", False, [])
    reading = read_delivery(headers, body, site.secrets.decrypt(encrypted))
    return repository_id, _judge(reading, is_active, branches) if isinstance(reading, Delivery) else reading


def _read_app(site: Site, headers: Mapping[str, str], body: bytes) -> tuple[int, Reading]:
    app = site.settings.github_app
    reading = read_delivery(headers, body, app.webhook_secret)
    if not isinstance(reading, Delivery):
        return 0, reading
    query = select(Repository).where(Repository.name == reading.repository, Repository.forge == "github")
    with site.readings() as session:
        repository = session.scalar(query)
    if repository is None or api_url(repository.forge_url) != api_url(app.url):
        return 0, Ignored(reading.delivery, f"The service does not have the repository '{reading.repository}'.")
    return repository.id, _judge(reading, repository.is_active, repository.branches)


def _judge(reading: Delivery, is_active: bool, branches: Sequence[str]) -> Reading:
    """What a delivery asks for, in a repository that is active or not, and runs some branches."""
    if not is_active:
        return Ignored(reading.delivery, "This repository is paused.")
    if reading.kind == "push" and not any(fnmatchcase(reading.branch, pattern) for pattern in branches):
        return Ignored(reading.delivery, f"The branch '{reading.branch}' is not run.")
    if reading.kind not in _HANDLED or (not reading.sha and reading.kind != "closed"):
        return Ignored(reading.delivery, f"There is nothing to do for '{reading.kind}'.")
    return reading


def _store(site: Site, deliveries: Sequence[NewDelivery]) -> None:
    with site.transactions() as session:
        store_deliveries(session, deliveries, site.clock())
    site.work.handle_deliveries()


def _answer(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"detail": sentence}, status, headers)


ROUTES = [
    Route("/hooks/{repository:int}", receive, methods=["POST"]),
    Route("/hooks/github-app", receive_app, methods=["POST"]),
]
