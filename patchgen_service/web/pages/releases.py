"""The pages of transformers' releases: all of them, and a repository's configs against them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchgen_service.records.proposals import read_proposal
from patchgen_service.store import Store
from patchgen_service.views.patch_debt import ReleaseStudy, read_study
from patchgen_service.views.releases import read_matrix, read_releases
from patchgen_service.web.rendering import render
from patchgen_service.web.visits import open_visit


def show_releases(request: Request) -> Response:
    """All releases, with the runs that went with them."""
    with open_visit(request) as visit:
        releases = read_releases(visit.session, visit.visitor.visible)
    return render(request, "releases.html", releases=releases)


def show_matrix(request: Request) -> Response:
    """A repository's configs against releases: what breaks, of what, and since which."""
    with open_visit(request) as visit:
        repository = visit.repository(request.path_params["repository"])
        matrix = read_matrix(visit.session, repository)
        store: Store = request.app.state.site.store
        study = read_study(visit.session, store, matrix.runs[-1].id) if matrix.runs else ReleaseStudy()
        proposal = read_proposal(visit.session, repository.id)
    return render(request, "matrix.html", repository=repository, matrix=matrix, study=study, proposal=proposal)


ROUTES = [
    Route("/releases", show_releases),
    Route("/repositories/{repository:int}/releases", show_matrix),
]
