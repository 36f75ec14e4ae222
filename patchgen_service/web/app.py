"""The application: its routes, and what every response has."""

from __future__ import annotations

from sqlalchemy import text
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from patchgen_service.web.pages import overview
from patchgen_service.web.rendering import ASSETS, read_asset
from patchgen_service.web.security import SecureResponses
from patchgen_service.web.site import Site

_YEAR = 31536000


def build_app(site: Site) -> Starlette:
    """The application over a service's data."""
    routes = [
        Route("/healthz", show_health),
        Route("/static/{name}", show_asset),
        *overview.ROUTES,
    ]
    app = Starlette(routes=routes, middleware=[Middleware(SecureResponses, site.hosts, site.is_secure)])
    app.state.site = site
    return app


def show_health(request: Request) -> Response:
    """Whether the service can read what it remembers."""
    site: Site = request.app.state.site
    with site.readings() as session:
        session.execute(text("SELECT 1"))
    return JSONResponse({"status": "ok"})


def show_asset(request: Request) -> Response:
    """A file of the pages; one that its address names by content may be kept for ever."""
    name = request.path_params["name"]
    try:
        content = read_asset(name)
    except KeyError:
        return PlainTextResponse("There is no such file.\n", 404)
    age = _YEAR if "v" in request.query_params else 300
    return Response(content, media_type=ASSETS[name], headers={"cache-control": f"public, max-age={age}"})
