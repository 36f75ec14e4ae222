"""Signing in with an account on a forge, and linking one's own: there and back again."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from patchgen_core.errors import PatchgenError
from patchgen_service.accounts.forge_accounts import ForgeAccount, enter_by_forge, link_account
from patchgen_service.accounts.people import sign_in
from patchgen_service.database.tables import Person
from patchgen_service.web.forms import local_path
from patchgen_service.web.pages.actions import posted
from patchgen_service.web.pages.sign_in import begin_session
from patchgen_service.web.rates import Limits
from patchgen_service.web.rendering import render
from patchgen_service.web.sign_in_forges import SignInForge, sign_in_forges
from patchgen_service.web.site import Site
from patchgen_service.web.visits import open_visit

_COOKIE, _PATH = "patchgen_sign_in", "/sign-in"
_SECONDS = 600
_OLD = "This sign-in began too long ago, or in another browser. Start again."


def begin(request: Request, fields: Mapping[str, str]) -> Response:
    """Send somebody to the forge; who is signed in comes back with their account linked."""
    from patchgen_service.web.oauth import begin_sign_in

    site: Site = request.app.state.site
    forge = _find_forge(request)
    beginning = begin_sign_in(forge.settings, _back(request, forge))
    with open_visit(request) as visit:
        person = visit.visitor.person_id if fields.get("link") else None
    note = {
        "forge": forge.name,
        "state": beginning.state,
        "verifier": beginning.verifier,
        "to": local_path(fields.get("next", "")),
        "person": person,
        "at": site.clock().timestamp(),
    }
    response = RedirectResponse(beginning.address, 303)
    response.set_cookie(
        _COOKIE,
        site.secrets.encrypt(json.dumps(note)),
        max_age=_SECONDS,
        path=_PATH,
        httponly=True,
        samesite="lax",  # the forge sends the browser back
        secure=site.is_secure,
    )
    return response


def come_back(request: Request) -> Response:
    """Let in who comes back from the forge, when it was this browser that went there."""
    from patchgen_service.web.oauth import OAuthProblem, finish_sign_in

    site: Site = request.app.state.site
    forge, note, query = _find_forge(request), _read_note(request), request.query_params
    limits: Limits = request.app.state.limits
    if not limits.by_address.take(request.client.host if request.client else "", time.monotonic()):
        return _refuse(request, "Too many attempts. Wait a minute, then try again.", 429)
    is_own = note.get("forge") == forge.name and 0 <= site.clock().timestamp() - note["at"] <= _SECONDS
    if not is_own or not hmac.compare_digest(note["state"].encode(), query.get("state", "").encode()):
        return _refuse(request, _OLD, 400)
    if not query.get("code"):
        reason = query.get("error_description") or query.get("error") or "it sent no code"
        return _refuse(request, f"{forge.label} did not let you in: {reason[:200]}.", 403)
    try:
        account = finish_sign_in(forge.settings, _back(request, forge), query["code"], note["verifier"])
    except OAuthProblem as problem:
        return _refuse(request, str(problem), 502)
    return _link(request, account, note["person"]) if note["person"] else _enter(request, forge, account, note["to"])


def _enter(request: Request, forge: SignInForge, account: ForgeAccount, to: str) -> Response:
    site: Site = request.app.state.site
    with site.transactions() as session:
        person = enter_by_forge(session, account, forge.settings.unknown == "viewer", site.clock())
        secret = sign_in(session, person, site.clock()) if person is not None else ""
    if not secret:
        hint = "Ask an administrator of this service to let you in, or sign in with a password and link your account."
        return _refuse(request, f"Nobody here is linked with '{account.login}' on {forge.label}. {hint}", 403)
    return _forget(begin_session(site, secret, to))


def _link(request: Request, account: ForgeAccount, person_id: int) -> Response:
    site: Site = request.app.state.site
    with open_visit(request) as visit:
        if visit.visitor.person_id != person_id:
            return _refuse(request, _OLD, 400)
    try:
        with site.transactions() as session:
            link_account(session, session.get_one(Person, person_id), account, site.clock())
    except PatchgenError as error:
        return _refuse(request, f"{error}.", 409)
    return _forget(RedirectResponse("/settings#accounts", 303))


def _find_forge(request: Request) -> SignInForge:
    name = request.path_params["forge"]
    forge = next((forge for forge in _forges(request) if forge.name == name), None)
    if forge is None:
        raise HTTPException(404)
    return forge


def _back(request: Request, forge: SignInForge) -> str:
    """The address that the forge sends people back to, as it has to be registered there."""
    site: Site = request.app.state.site
    root = site.settings.public_url or str(request.base_url)
    return f"{root.rstrip('/')}{_PATH}/{forge.name}/back"


def _read_note(request: Request) -> Mapping[str, Any]:
    """What was remembered when somebody went to the forge; nothing where that was forged, or another browser."""
    site: Site = request.app.state.site
    try:
        note = json.loads(site.secrets.decrypt(request.cookies.get(_COOKIE, "")) or "{}")
    except PatchgenError:
        note = {}
    return note if isinstance(note, dict) else {}


def _refuse(request: Request, sentence: str, status: int) -> Response:
    with open_visit(request):
        return _forget(
            render(request, "sign_in.html", status, to="/", name="", wrong=sentence, forges=_forges(request))
        )


def _forges(request: Request) -> tuple[SignInForge, ...]:
    site: Site = request.app.state.site
    return sign_in_forges(site.settings)


def _forget(response: Response) -> Response:
    response.delete_cookie(_COOKIE, path=_PATH)
    return response


ROUTES = [
    Route("/sign-in/{forge}", posted(begin), methods=["POST"]),
    Route("/sign-in/{forge}/back", come_back),
]
