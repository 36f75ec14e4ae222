"""The button that has a release of transformers proposed to a repository as a pull request."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from patchgen_service.database.tables import Release, Repository
from patchgen_service.records.proposals import ProposalNote, find_newest_release, note_proposal
from patchgen_service.web.pages.actions import posted
from patchgen_service.web.site import Site
from patchgen_service.web.visits import open_visit


def propose(request: Request, fields: Mapping[str, str]) -> Response:
    """Propose a release; the newest where none is named."""
    repository_id: int = request.path_params["repository"]
    version = fields.get("version", "").strip()
    with open_visit(request) as visit:
        visit.check_role(repository_id, "approver")
        visit.repository(repository_id)
        if version and visit.session.get(Release, version) is None:
            raise HTTPException(409, f"No release '{version}' of transformers has been seen.")
        version = version or find_newest_release(visit.session)
        if not version:
            raise HTTPException(409, "No release of transformers has been seen yet.")
        name = visit.visitor.name
    site: Site = request.app.state.site
    with site.transactions() as session:
        wish = ProposalNote(version, "waiting", site.clock())
        note_proposal(session, session.get_one(Repository, repository_id), name, wish)
    site.work.propose_release(repository_id, version, name)
    return RedirectResponse(f"/repositories/{repository_id}/releases#proposal", 303)


ROUTES = [Route("/repositories/{repository:int}/releases/propose", posted(propose), methods=["POST"])]
