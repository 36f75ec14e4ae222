"""Webhooks: each is checked, stored and answered at once; what it asks for is carried out afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase

from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from patchgen_service.database.tables import Repository
from patchgen_service.forges.delivery import Delivery, Ignored, Refused
from patchgen_service.forges.webhooks import LARGEST, read_delivery
from patchgen_service.records.repositories import read_secret
from patchgen_service.records.runs import RunCause, begin_run
from patchgen_service.web.rates import RateLimit
from patchgen_service.web.site import Site
from patchgen_service.web.visits import LARGEST_KEY

_MOST_AT_ONCE = 64
_BEGINS_RUN = ("push", "pull_request", "rerun")


@dataclass(frozen=True)
class _Letter:
    """A delivery to be stored; ``answer`` gets the id of its run, empty for none."""

    repository_id: int
    delivery: Delivery
    answer: asyncio.Future[str]


@dataclass
class Inbox:
    """Stores deliveries: those that come while a transaction is under way share the next.

    A run that comes alone is begun at once; those of a flood are left to the clock of the jobs, which looks for runs
    that wait every second.
    """

    site: Site
    _letters: list[_Letter] = field(default_factory=list)
    _task: asyncio.Task[None] | None = None

    async def store(self, repository_id: int, delivery: Delivery) -> str:
        """The id of the run that a delivery began or joined, once that is on the disk; empty for none."""
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._letters.append(_Letter(repository_id, delivery, answer))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work_off())
        return await answer

    async def _work_off(self) -> None:
        while self._letters:
            letters, self._letters = self._letters[:_MOST_AT_ONCE], self._letters[_MOST_AT_ONCE:]
            try:
                answers = await run_in_threadpool(_store, self.site, letters)
            except Exception as error:
                answers = [error] * len(letters)
            for letter, answer in zip(letters, answers):
                if letter.answer.cancelled():
                    continue
                if isinstance(answer, str):
                    letter.answer.set_result(answer)
                else:
                    letter.answer.set_exception(answer)
            if len(answers) == 1 and isinstance(answers[0], str) and answers[0]:
                await run_in_threadpool(self.site.work.begin, answers[0])


async def receive(request: Request) -> Response:
    """Take a webhook of a repository: 202 once it is stored."""
    site: Site = request.app.state.site
    inbox: Inbox = request.app.state.inbox
    repository_id: int = request.path_params["repository"]
    key = f"{request.client.host if request.client else ''}/{repository_id}"
    wrong: RateLimit = request.app.state.limits.wrong_signatures
    if wrong.is_used_up(key, time.monotonic()):
        return _answer(429, "Too many deliveries with a wrong signature.")
    body = await _read_body(request)
    if body is None:
        return _answer(413, f"A delivery has at most {LARGEST >> 20} MiB.", {"connection": "close"})
    reading = await run_in_threadpool(_read, site, repository_id, dict(request.headers), body)
    if isinstance(reading, Refused):
        if reading.status in (401, 404):
            wrong.take(key, time.monotonic())
        return _answer(reading.status, reading.reason)
    if isinstance(reading, Ignored):
        return _answer(202, reading.reason)
    run = await inbox.store(repository_id, reading)
    return JSONResponse({"delivery": reading.delivery, "run": run}, 202)


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


def _read(site: Site, repository_id: int, headers: Mapping[str, str], body: bytes) -> Delivery | Ignored | Refused:
    with site.readings() as session:
        repository = session.get(Repository, min(repository_id, LARGEST_KEY))
        secret = read_secret(repository, "webhook_secret", site.secrets) if repository is not None else ""
        is_active = repository is not None and repository.is_active
        branches = repository.branches if repository is not None else []
    reading = read_delivery(headers, body, secret)
    if not isinstance(reading, Delivery):
        return reading
    if not is_active:
        return Ignored(reading.delivery, "This repository is paused.")
    if reading.kind == "push" and not any(fnmatchcase(reading.branch, pattern) for pattern in branches):
        return Ignored(reading.delivery, f"The branch '{reading.branch}' is not run.")
    if reading.kind not in _BEGINS_RUN or not reading.sha:
        return Ignored(reading.delivery, f"There is nothing to do for '{reading.kind}'.")
    return reading


def _store(site: Site, letters: Sequence[_Letter]) -> list[str | Exception]:
    """Begin the runs of deliveries in one transaction; one that cannot be stored spoils no other."""
    answers: list[str | Exception] = []
    now = site.clock()
    with site.transactions() as session:
        for letter in letters:
            try:
                with session.begin_nested():
                    answers.append(_begin(session, letter, now))
            except ValueError as error:
                answers.append(error)
    return answers


def _begin(session: Session, letter: _Letter, now: datetime) -> str:
    delivery = letter.delivery
    repository = session.get(Repository, letter.repository_id)
    if repository is None:
        return ""
    cause = RunCause(
        "manual" if delivery.kind == "rerun" else "webhook",
        delivery.delivery,
        delivery.branch,
        delivery.sha,
        base=delivery.base,
        before=delivery.before,
        pull_request=delivery.pull_request,
        is_fork=delivery.is_fork,
        actor=delivery.actor,
        subject=delivery.message.partition("\n")[0][:300],
    )
    return begin_run(session, repository, cause, now).id


def _answer(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"detail": sentence}, status, headers)


ROUTES = [Route("/hooks/{repository:int}", receive, methods=["POST"])]
