"""What other pages and readers show of a repository: a badge of a branch, and a feed of its runs."""

from __future__ import annotations

import hashlib

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchgen_service.accounts.tokens import find_bearer
from patchgen_service.database.tables import Repository, Run
from patchgen_service.posting.badge import draw_badge
from patchgen_service.posting.feed import write_feed
from patchgen_service.views.branch import read_status
from patchgen_service.views.lines import read_lines
from patchgen_service.web.site import Site
from patchgen_service.web.visits import LARGEST_KEY, Visit, open_visit

_SECONDS_FRESH = 60
_ENTRIES = 50


def show_badge(request: Request) -> Response:
    """The state of a branch as a small picture."""
    with open_visit(request) as visit:
        repository = _find_repository(request, visit)
        status = read_status(visit.session, repository.id, request.path_params["branch"])
    return _answer(request, draw_badge(status).encode(), "image/svg+xml", repository.is_public)


def show_feed(request: Request) -> Response:
    """The last runs of a repository that ended, as an Atom feed."""
    site: Site = request.app.state.site
    root = (site.settings.public_url or str(request.base_url)).rstrip("/")
    with open_visit(request) as visit:
        repository = _find_repository(request, visit)
        conditions = (Run.repository_id == repository.id, Run.ended.is_not(None))
        runs = read_lines(visit.session, *conditions, limit=_ENTRIES)
    feed = write_feed(f"{repository.name}: patchgen", f"{root}{request.url.path}", root, runs)
    return _answer(request, feed, "application/atom+xml", repository.is_public)


def _find_repository(request: Request, visit: Visit) -> Repository:
    """The repository of the address, for whoever may see it, or has a token in the address that may read it."""
    number: int = request.path_params["repository"]
    secret = request.query_params.get("token", "")
    if not secret:
        return visit.repository(number)
    bearer = find_bearer(visit.session, secret, visit.site.clock())
    repository = visit.session.get(Repository, min(number, LARGEST_KEY))
    if bearer is None or repository is None or not bearer.may(visit.session, "read", repository):
        raise HTTPException(404)
    return repository


def _answer(request: Request, content: bytes, media_type: str, is_public: bool) -> Response:
    """Content that is fresh for a short while, and then only sent when it has changed."""
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"etag": tag, "cache-control": f"{'public' if is_public else 'private'}, max-age={_SECONDS_FRESH}"}
    known = {entry.strip().removeprefix("W/") for entry in request.headers.get("if-none-match", "").split(",")}
    if tag in known:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media_type, headers=headers)


ROUTES = [
    Route("/badge/{repository:int}/{branch:path}.svg", show_badge),
    Route("/feeds/{repository:int}.atom", show_feed),
]
