"""Asking a forge over HTTP: what it answers as a shape, and what goes wrong in kinds that say whether to try again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec

ForgeErrorKind = Literal["authentication", "missing", "refused", "limited", "unavailable"]
"""``limited``: too many requests. ``unavailable``: it answers with an error of its own, nonsense, or not at all."""
_CONNECT_SECONDS, _ANSWER_SECONDS = 10, 30
_PAGE = 50
"""What Forgejo and Gitea give at most, unless they are told otherwise."""
_MOST_PAGES = 50
Shape = TypeVar("Shape")


class ForgeError(Exception):
    """A forge did not do it. ``str()`` of it is a sentence; ``retry_after`` is what the forge asks to wait."""

    def __init__(self, kind: ForgeErrorKind, message: str, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.kind: ForgeErrorKind = kind
        self.retry_after = retry_after

    @property
    def is_final(self) -> bool:
        """Whether trying again is of no use."""
        return self.kind not in ("limited", "unavailable")


def make_http_client() -> httpx.Client:
    """What requests are sent with: it has time limits, and follows no redirects, which could lead a token astray."""
    return httpx.Client(timeout=httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS), follow_redirects=False)


@dataclass(frozen=True)
class Api:
    """The API of a forge at ``url``, with the headers that let the service in."""

    http: httpx.Client
    url: str
    headers: Mapping[str, str] = field(repr=False)

    def ask(self, method: str, path: str, shape: type[Shape], content: Any = None, **query: str | int) -> Shape:
        """Send a request and read its answer; a ForgeError when there is no good one."""
        body = msgspec.json.encode(content) if content is not None else None
        answer = self._request(method, path, body, query)
        try:
            return msgspec.json.decode(answer.content or b"null", type=shape)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ForgeError("unavailable", f"{answer.url.host} answered with something else: {error}") from None

    def send(self, body: bytes) -> None:
        """Post bytes of JSON to the URL itself; what is answered does not matter as long as it is a success."""
        self._request("POST", "", body, {})

    def pages(self, path: str, shape: type[Shape], **query: str | int) -> Iterator[Shape]:
        """The entries of a list, page by page; a forge that knows no pages gives all of them at once."""
        before: list[Shape] = []
        for page in range(1, _MOST_PAGES + 1):
            entries = self.ask("GET", path, list[shape], per_page=_PAGE, limit=_PAGE, page=page, **query)  # type: ignore[valid-type]
            if entries == before:
                return
            yield from entries
            if len(entries) < _PAGE:
                return
            before = entries

    def _request(self, method: str, path: str, body: bytes | None, query: Mapping[str, str | int]) -> httpx.Response:
        headers = {**self.headers, **({"Content-Type": "application/json"} if body is not None else {})}
        try:
            answer = self.http.request(
                method, f"{self.url}{path}", headers=headers, params=query or None, content=body
            )
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise ForgeError(
                "unavailable", f"{_host(self.url)} did not answer: {error or type(error).__name__}"
            ) from None
        if not answer.is_success:
            raise _explain(answer)
        return answer


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


def _explain(answer: httpx.Response) -> ForgeError:
    status, text = answer.status_code, answer.text[:300].strip()
    message = f"{answer.url.host} answered {status}{f': {text}' if text else ''}"
    if status == 429 or (status == 403 and _is_limited(answer)):
        return ForgeError("limited", message, _read_wait(answer))
    if status >= 500 or status == 408:
        return ForgeError("unavailable", message, _read_wait(answer))
    if status in (401, 403):
        return ForgeError("authentication", message)
    return ForgeError("missing" if status in (404, 410) else "refused", message)


def _is_limited(answer: httpx.Response) -> bool:
    """GitHub says 403 where others say 429."""
    names = answer.headers
    return "retry-after" in names or names.get("x-ratelimit-remaining") == "0" or "rate limit" in answer.text[:1000]


def _read_wait(answer: httpx.Response) -> timedelta | None:
    after = answer.headers.get("retry-after", "")
    if after.isdecimal():
        return timedelta(seconds=min(int(after), 86400))
    reset = answer.headers.get("x-ratelimit-reset") or answer.headers.get("ratelimit-reset", "")
    if reset.isdecimal():
        return timedelta(seconds=min(max(int(reset) - int(time.time()), 1), 86400))
    return None
