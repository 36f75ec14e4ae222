"""The first page: all repositories at a glance."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchgen_service.views.overview import read_overview
from patchgen_service.web.rendering import render
from patchgen_service.web.site import Site


def show_overview(request: Request) -> Response:
    """All repositories that the visitor may see."""
    site: Site = request.app.state.site
    with site.readings() as session:
        overview = read_overview(session, None, site.clock())
    return render(request, "overview.html", overview=overview)


ROUTES = [Route("/", show_overview)]
