"""Forms that only pages of this service can send."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request

from patchgen_service.web.bodies import limit_body

FORM_COOKIE = "patchgen_form"
_MOST_BYTES = 1 << 20


def make_form_cookie() -> str:
    """A secret of a browser, by which its forms are known."""
    return secrets.token_urlsafe(32)


def form_token(cookie: str, session: str) -> str:
    """What a form has to hold, made of the browser's secret and the session that it was shown in."""
    return hmac.new(cookie.encode(), session.encode(), hashlib.sha256).hexdigest()


def local_path(address: str) -> str:
    """The path of an address, for going there within this service; its first page for what is no path."""
    parts = urlsplit(address)
    path = urlunsplit(("", "", parts.path, parts.query, ""))
    is_local = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_local else "/"


async def read_form(request: Request, session_cookie: str) -> Mapping[str, str]:
    """The fields of a form that was sent; ends the request where it is not one of this service's pages'."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(403, "This form was sent from another site.")
    limited = Request(request.scope, limit_body(request.scope, request.receive, _MOST_BYTES))
    form = await limited.form(max_files=0, max_fields=100, max_part_size=_MOST_BYTES)
    fields = {name: value for name, value in form.items() if isinstance(value, str)}
    cookie = request.cookies.get(FORM_COOKIE, "")
    token = form_token(cookie, request.cookies.get(session_cookie, ""))
    if not cookie or not hmac.compare_digest(token.encode(), fields.get("csrf", "").encode()):
        raise HTTPException(403, "This form is too old, or cookies are off. Go back, load the page again, and repeat.")
    return fields
