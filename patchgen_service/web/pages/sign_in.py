"""Signing in with a name and a password, signing out, and the colours of the pages."""

from __future__ import annotations

import time
from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from patchgen_service.accounts.people import SESSION_LENGTH, check_password, renew_hash, sign_in, sign_out
from patchgen_service.web.forms import FORM_COOKIE, local_path, read_form
from patchgen_service.web.rates import Limits
from patchgen_service.web.rendering import render
from patchgen_service.web.sign_in_forges import sign_in_forges
from patchgen_service.web.site import Site
from patchgen_service.web.visits import SESSION_COOKIE, open_visit

_WRONG = "This name and password do not match."
_TOO_MANY = "Too many attempts. Wait a minute, then try again."
_LONGEST_NAME = 200
"""Longer than any that there is: names that are tried are remembered."""
_THEMES = ("system", "light", "dark")


def show_sign_in(request: Request) -> Response:
    """The form to sign in."""
    with open_visit(request):
        return _form(request, local_path(request.query_params.get("next", "")))


async def post_sign_in(request: Request) -> Response:
    """Begin a session where name and password go together."""
    fields = await read_form(request, SESSION_COOKIE)
    return await run_in_threadpool(_sign_in, request, fields)


async def post_sign_out(request: Request) -> Response:
    """End the session."""
    await read_form(request, SESSION_COOKIE)
    return await run_in_threadpool(_sign_out, request)


async def post_theme(request: Request) -> Response:
    """The next of the colours, for browsers without JavaScript."""
    await read_form(request, SESSION_COOKIE)
    now = request.cookies.get("theme", "system")
    theme = _THEMES[(_THEMES.index(now) + 1) % 3] if now in _THEMES else "system"
    response = RedirectResponse(local_path(request.headers.get("referer", "")), 303)
    response.set_cookie("theme", theme, max_age=31536000, samesite="lax")
    return response


def begin_session(site: Site, secret: str, to: str) -> Response:
    """Send a browser on, signed in."""
    response = RedirectResponse(to, 303)
    length = int(SESSION_LENGTH.total_seconds())
    response.set_cookie(SESSION_COOKIE, secret, max_age=length, httponly=True, samesite="lax", secure=site.is_secure)
    response.delete_cookie(FORM_COOKIE)
    return response


def _sign_in(request: Request, fields: Mapping[str, str]) -> Response:
    site: Site = request.app.state.site
    name, at = fields.get("name", "").strip()[:_LONGEST_NAME], time.monotonic()
    address = request.client.host if request.client else ""
    to = local_path(fields.get("next", ""))
    limits: Limits = request.app.state.limits
    if not limits.by_address.take(address, at) or not limits.by_name.take(name.lower(), at):
        return _form(request, to, name, _TOO_MANY, 429)
    now = site.clock()
    with site.readings() as session:
        person = check_password(session, name, fields.get("password", ""))
    if person is None:
        return _form(request, to, name, _WRONG, 403)
    with site.transactions() as session:
        renew_hash(session, person, fields.get("password", ""))
        secret = sign_in(session, person, now)
    limits.by_name.forget(name.lower())
    return begin_session(site, secret, to)


def _sign_out(request: Request) -> Response:
    site: Site = request.app.state.site
    with site.transactions() as session:
        sign_out(session, request.cookies.get(SESSION_COOKIE, ""))
    response = RedirectResponse("/", 303)
    response.delete_cookie(SESSION_COOKIE)
    response.delete_cookie(FORM_COOKIE)
    return response


def _form(request: Request, to: str, name: str = "", wrong: str = "", status: int = 200) -> Response:
    site: Site = request.app.state.site
    forges = sign_in_forges(site.settings)
    return render(request, "sign_in.html", status, to=to, name=name, wrong=wrong, forges=forges)


ROUTES = [
    Route("/sign-in", show_sign_in),
    Route("/sign-in", post_sign_in, methods=["POST"]),
    Route("/sign-out", post_sign_out, methods=["POST"]),
    Route("/theme", post_theme, methods=["POST"]),
]
