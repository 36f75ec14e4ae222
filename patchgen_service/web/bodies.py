"""How much may come with a request: what is more is not read, and takes no memory."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_CALL = 64 * 1024 * 1024
"""Bytes of a call of the API, which may bring a file of 20 million characters or a hundred results."""


class LimitedBodies:
    """Ends a request with 413 where more comes with it than it may bring."""

    def __init__(self, app: ASGIApp, largest: int) -> None:
        self._app, self._largest = app, largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._app(scope, limit_body(scope, receive, self._largest), send)


def limit_body(scope: Scope, receive: Receive, largest: int) -> Receive:
    """What receives a request, and raises an HTTPException 413 as soon as it says or turns out to be too large."""
    length = Headers(scope=scope).get("content-length", "")
    is_too_large = length.isdecimal() and int(length[:20]) > largest
    size = 0

    async def receive_part() -> Message:
        nonlocal size
        message: Message = {} if is_too_large else await receive()
        size += len(message.get("body", b""))
        if is_too_large or size > largest:
            raise HTTPException(413, f"A request may have {largest >> 20} MiB.", {"connection": "close"})
        return message

    return receive_part
