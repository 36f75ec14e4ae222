"""Pages from templates: everything that is not markup of ours is escaped."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import markupsafe
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from patchgen_core.report.html.components import config_name
from patchgen_core.report.html.markup import Markup, as_markup, tag
from patchgen_core.report.words import quantity
from patchgen_service.web.forms import FORM_COOKIE, form_token, make_form_cookie
from patchgen_service.web.lead import lead
from patchgen_service.web.plots import percent
from patchgen_service.web.site import Site
from patchgen_service.web.visits import SESSION_COOKIE, Visitor
from patchgen_service.web.words import duration, face, time_ago

_USER = re.compile(r"^(https?://)[^/@]*@", re.IGNORECASE)
_PASSWORD = re.compile(r"^([\w+.-]+://[^/@:]*):[^/@]*@")
PAGES = (
    ("/", "Repositories", "r"),
    ("/approvals", "Approvals", "a"),
    ("/releases", "Releases", "l"),
    ("/work", "Work", "w"),
    ("/audit", "Audit", "u"),
    ("/settings", "Settings", "s"),
)
"""Address, name and key of the pages that every page links."""
FOLDER = Path(__file__).parent
REPORT_FOLDER = Path(__file__).parents[2] / "patchgen_core" / "report" / "html"


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """The response with a template's page; ``values`` are what it shows."""
    site: Site = request.app.state.site
    visitor = getattr(request.state, "visitor", Visitor())
    cookie = request.cookies.get(FORM_COOKIE, "") or make_form_cookie()
    request.state.csrf = form_token(cookie, request.cookies.get(SESSION_COOKIE, ""))
    page = _templates().get_template(template)
    text = page.render(request=request, visitor=visitor, now=site.clock(), pages=PAGES, **values)
    response = HTMLResponse(text, status)
    if FORM_COOKIE not in request.cookies:
        response.set_cookie(FORM_COOKIE, cookie, httponly=True, samesite="lax", secure=site.is_secure)
    return response


@lru_cache(1)
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(
        duration=duration, quantity=_quantity, percent=percent, without_user=without_user, history_words=_history_words
    )
    environment.globals.update(
        face=face,
        lead=lead,
        badge=_badge,
        verdict=_verdict,
        moment=_moment,
        asset=asset_address,
        config_name=config_name,
    )
    return environment


def _finalize(value: object) -> object:
    """Text of the report's components as it is; other text escaped as they do it, control characters too."""
    return markupsafe.Markup(as_markup(value)) if isinstance(value, str) and not _is_safe(value) else value


def _is_safe(value: str) -> bool:
    return isinstance(value, markupsafe.Markup)


def _badge(state: str) -> Markup:
    """A state as a word with its sign and colour."""
    look = face(state)
    return _verdict(look.word, look.tone, look.sign)


def _verdict(word: str, tone: str, sign: str) -> Markup:
    return tag("span", tag("span", sign, aria_hidden="true"), f" {word}", class_=f"badge t-{tone}")


def _history_words(statuses: Sequence[str]) -> str:
    """What a row of small bars says, for those who do not see it."""
    counts = Counter(face(status).word if status else "not run" for status in statuses)
    return ", ".join(f"{count} {word}" for word, count in counts.items())


def _quantity(count: int, noun: str, plural: str = "") -> str:
    return f"{count} {plural}" if plural and count != 1 else quantity(count, noun)


def without_user(url: str) -> str:
    """A git URL without the password that it may hold, nor the name before it where that can be a token.

    The name in an address of ssh is a part of it, such as ``git``.
    """
    return _PASSWORD.sub(r"\1@", _USER.sub(r"\1", url))


def _moment(moment: datetime | None, now: datetime) -> Markup:
    """A moment as people say it; a pointer that rests on it shows it in full."""
    if moment is None:
        return Markup()
    exact = moment.strftime("%Y-%m-%d %H:%M:%S UTC")
    return tag("time", time_ago(moment, now), datetime=moment.isoformat(), title=exact)


@lru_cache(16)
def asset_address(name: str) -> str:
    """The address of a file of the pages, which changes with its content."""
    return f"/static/{name}?v={hashlib.sha256(read_asset(name)).hexdigest()[:12]}"


@lru_cache(16)
def read_asset(name: str) -> bytes:
    """A file of the pages; some are those of the core's reports. A KeyError where there is none."""
    if name not in ASSETS:
        raise KeyError(name)
    return (REPORT_FOLDER / OF_REPORTS[name] if name in OF_REPORTS else FOLDER / "static" / name).read_bytes()


OF_REPORTS = {"report.css": "style.css", "scrolling.js": "scrolling.js"}
ASSETS = {
    "report.css": "text/css; charset=utf-8",
    "scrolling.js": "text/javascript; charset=utf-8",
    "service.css": "text/css; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "service.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""The files of the pages, with their media types; those of the core's reports are in ``OF_REPORTS``."""
