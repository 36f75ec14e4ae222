"""The application: its routes, and what every response has."""

from __future__ import annotations

from http import HTTPStatus
from threading import Lock

from sqlalchemy import text
from sqlalchemy.exc import DataError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from patchgen_service.database.engine import UNAVAILABLE
from patchgen_service.web import hooks
from patchgen_service.web.api_limit import LimitedCalls
from patchgen_service.web.bodies import LARGEST_CALL, LimitedBodies
from patchgen_service.web.inbox import Inbox
from patchgen_service.web.pages import (
    actions,
    config,
    feeds,
    forge_sign_in,
    lists,
    overview,
    posts,
    proposals,
    releases,
    run,
    settings,
    sign_in,
)
from patchgen_service.web.rates import Limits
from patchgen_service.web.rendering import ASSETS, read_asset, render
from patchgen_service.web.security import SecureResponses
from patchgen_service.web.sign_in_forges import sign_in_forges
from patchgen_service.web.site import Site
from patchgen_service.web.unavailable import TRY_AGAIN, log_unavailable

_SENTENCES = {
    403: ("That is not allowed", "You may not do that here."),
    404: ("There is nothing here", "There is no such page, or you may not see it: signing in may help."),
    405: ("That is no page", "This address does not accept that."),
    409: ("It has changed meanwhile", "What you saw is out of date."),
    413: ("That is too much", "The request is larger than this service accepts."),
    429: ("Too many attempts", "Wait a minute, then try again."),
}
"""What error pages say, by status: a title and a sentence."""
_PAGES = (overview, run, config, releases, proposals, posts, lists, actions, sign_in, forge_sign_in, settings, feeds)
_API = "/api/v1"
_YEAR = 31536000


def build_app(site: Site) -> Starlette:
    """The application over a service's data."""
    routes = [
        *hooks.ROUTES,  # the first that are tried: they come by the hundred
        Route("/healthz", show_health),
        Route("/metrics", show_metrics),
        Route("/static/{name}", show_asset),
        *(route for page in _PAGES for route in page.ROUTES),
        Mount(_API, LimitedCalls(LimitedBodies(LazyApi(site), LARGEST_CALL), site.settings.calls)),
    ]
    forges = [forge.origin for forge in sign_in_forges(site.settings)]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(SecureResponses, site.hosts, site.is_secure, forges)],
        exception_handlers={
            HTTPException: show_error,
            **dict.fromkeys(UNAVAILABLE, show_unavailable),
            DataError: show_impossible,
            Exception: show_failure,
        },
    )
    app.state.site = site
    app.state.limits = Limits()
    app.state.inbox = Inbox(site)
    return app


class LazyApi:
    """The API, which is made with its first call: what it is made with takes a third of the time to start."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._api: ASGIApp | None = None
        self._lock = Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call."""
        if self._api is None:
            await run_in_threadpool(self.make)
        assert self._api is not None
        await self._api(scope, receive, send)

    def make(self) -> None:
        """Make it, unless that was done."""
        from patchgen_service.web.api.app import build_api

        with self._lock:
            if self._api is None:
                self._api = build_api(self._site)


def show_error(request: Request, error: Exception) -> Response:
    """A page for what is not there, or may not be done."""
    assert isinstance(error, HTTPException)
    title, sentence = _SENTENCES.get(error.status_code, ("That did not work", "The request could not be answered."))
    message = error.detail if error.detail and error.detail != HTTPStatus(error.status_code).phrase else sentence
    if request.scope["path"].startswith(f"{_API}/"):  # with a line break in it, which no route matches
        return JSONResponse({"detail": message}, error.status_code)
    response = render(request, "error.html", error.status_code, title=title, sentence=message)
    response.headers.update(error.headers or {})
    return response


def show_failure(request: Request, error: Exception) -> Response:
    """A page that says that this is the service's own fault."""
    sentence = "The service failed to answer. What happened is in its log."
    return render(request, "error.html", 500, title="Something broke", sentence=sentence)


def show_impossible(request: Request, error: Exception) -> Response:
    """A page that says that something was asked for which cannot be stored, such as a name with a NUL character."""
    sentence = "There is a character in the request that nothing here has in its name."
    return render(request, "error.html", 400, title="That cannot be", sentence=sentence)


def show_unavailable(request: Request, error: Exception) -> Response:
    """A page that says that the database cannot be written or reached now, such as when the disk is full."""
    log_unavailable(request, error)
    sentence = "The service cannot reach its database now, or its disk is full. Try again in a minute."
    response = render(request, "error.html", 503, title="Not now", sentence=sentence)
    response.headers.update(TRY_AGAIN)
    return response


def show_health(request: Request) -> Response:
    """Whether the service can read what it remembers."""
    site: Site = request.app.state.site
    with site.readings() as session:
        session.execute(text("SELECT 1"))
    return JSONResponse({"status": "ok"})


def show_metrics(request: Request) -> Response:
    """Counts for Prometheus; what makes them is imported when somebody asks."""
    from patchgen_service.web import metrics

    return metrics.show_metrics(request)


def show_asset(request: Request) -> Response:
    """A file of the pages; one that its address names by content may be kept for ever."""
    name = request.path_params["name"]
    try:
        content = read_asset(name)
    except KeyError:
        return PlainTextResponse("There is no such file.\n", 404)
    age = _YEAR if "v" in request.query_params else 300
    return Response(content, media_type=ASSETS[name], headers={"cache-control": f"public, max-age={age}"})
