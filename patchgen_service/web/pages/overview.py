"""The first page, and those of a repository and a branch."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchgen_service.views.approvals import read_waiting
from patchgen_service.views.branch import read_branch, read_grid, read_runs
from patchgen_service.views.overview import read_overview, read_repository
from patchgen_service.web.rendering import render
from patchgen_service.web.visits import open_visit

_RUNS = 30
"""How many runs a page lists."""


def show_overview(request: Request) -> Response:
    """All repositories that the visitor may see."""
    with open_visit(request) as visit:
        overview = read_overview(visit.session, visit.visitor.visible, visit.site.clock())
        waiting = read_waiting(visit.session, visit.visitor.visible)
    return render(request, "overview.html", overview=overview, waiting=waiting)


def show_repository(request: Request) -> Response:
    """A repository with all of its branches."""
    repository_id: int = request.path_params["repository"]
    with open_visit(request) as visit:
        repository = visit.repository(repository_id)
        state = read_repository(visit.session, repository_id)
    return render(request, "repository.html", repository=repository, state=state)


def show_branch(request: Request) -> Response:
    """A branch: its configs against the checks, now and over time, and its runs."""
    repository_id: int = request.path_params["repository"]
    branch: str = request.path_params["branch"]
    page = _page_number(request)
    with open_visit(request) as visit:
        repository = visit.repository(repository_id)
        state = read_branch(visit.session, repository_id, branch)
        runs = read_runs(visit.session, repository_id, branch, _RUNS + 1, page * _RUNS)
        if state is None and not runs:
            raise HTTPException(404)
        shown = state and (state.verdict or state.newest)
        grid = read_grid(visit.session, shown) if shown else None
    return render(
        request,
        "branch.html",
        repository=repository,
        branch=branch,
        state=state,
        grid=grid,
        runs=runs[:_RUNS],
        page=page,
        has_more=len(runs) > _RUNS,
    )


def _page_number(request: Request) -> int:
    text = request.query_params.get("page", "0")
    return int(text) if text.isdecimal() and len(text) < 7 else 0


ROUTES = [
    Route("/", show_overview),
    Route("/repositories/{repository:int}", show_repository),
    Route("/repositories/{repository:int}/branches/{branch:path}", show_branch),
]
