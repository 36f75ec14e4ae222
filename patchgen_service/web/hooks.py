"""Webhooks: each is checked, stored and answered at once; jobs do what it asks for afterwards."""

from __future__ import annotations

import time
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from patchgen_service.forges.delivery import Ignored, Refused
from patchgen_service.forges.webhooks import LARGEST
from patchgen_service.web.inbox import Inbox, Webhook
from patchgen_service.web.rates import RateLimit
from patchgen_service.web.visits import LARGEST_KEY


async def receive(request: Request) -> Response:
    """Take a webhook of a repository: 202 once it is stored."""
    return await _take(request, min(request.path_params["repository"], LARGEST_KEY))


async def receive_app(request: Request) -> Response:
    """Take a webhook of the app on GitHub, which has one address for all repositories: it names whose it is.

    GitHub tells of pressed buttons here alone.
    """
    return await _take(request, None)


async def _take(request: Request, repository_id: int | None) -> Response:
    inbox: Inbox = request.app.state.inbox
    key = f"{request.client.host if request.client else ''}/{'app' if repository_id is None else repository_id}"
    wrong: RateLimit = request.app.state.limits.wrong_signatures
    if wrong.is_used_up(key, time.monotonic()):
        return _answer(429, "Too many deliveries with a wrong signature.")
    body = await _read_body(request)
    if body is None:
        return _answer(413, f"A delivery has at most {LARGEST >> 20} MiB.", {"connection": "close"})
    reading = await inbox.take(Webhook(repository_id, dict(request.headers), body))
    if isinstance(reading, Refused):
        if reading.status in (401, 404):
            wrong.take(key, time.monotonic())
        return _answer(reading.status, reading.reason)
    if isinstance(reading, Ignored):
        return _answer(202, reading.reason)
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


def _answer(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"detail": sentence}, status, headers)


ROUTES = [
    Route("/hooks/{repository:int}", receive, methods=["POST"]),
    Route("/hooks/github-app", receive_app, methods=["POST"]),
]
