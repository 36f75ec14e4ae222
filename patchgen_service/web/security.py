"""What every response has, and which requests are not even looked at."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class SecureResponses:
    """Adds the headers that keep pages from running or showing what is not of this service, and turns requests away
    that call it by a name which is not its own."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str], is_secure: bool, forges: Sequence[str] = ()) -> None:
        """Take the names of this service, and the origins that forms may lead on to."""
        self._app = app
        self._hosts = hosts
        policy = POLICY.replace("form-action 'self'", " ".join(("form-action 'self'", *forges)))
        self._headers = {
            **_HEADERS,
            "content-security-policy": policy,
            **({"strict-transport-security": "max-age=31536000"} if is_secure else {}),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        if self._hosts and _host_name(Headers(scope=scope).get("host", "")) not in self._hosts:
            answer = PlainTextResponse("This service does not answer to that name.\n", 421)
            await answer(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)


def _host_name(host: str) -> str:
    """The name of a Host header without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).strip("[]").lower()
