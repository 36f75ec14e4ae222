"""The button that tries a post again that was given up."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from patchgen_service.database.tables import Post
from patchgen_service.records.audit import write_audit
from patchgen_service.records.posts import retry_post
from patchgen_service.web.pages.actions import posted
from patchgen_service.web.site import Site
from patchgen_service.web.visits import LARGEST_KEY, open_visit


def retry(request: Request, fields: Mapping[str, str]) -> Response:
    """Try a post again; one that was not given up stays as it is."""
    post_id = min(request.path_params["post"], LARGEST_KEY)
    with open_visit(request) as visit:
        post = visit.session.get(Post, post_id)
        visit.check_role(post.repository_id if post is not None else None, "approver")
        assert post is not None
        name, subject, repository_id = visit.visitor.name, post.subject, post.repository_id
    site: Site = request.app.state.site
    with site.transactions() as session:
        retry_post(session, post_id, site.clock())
        write_audit(session, name, "post.retry", site.clock(), subject, repository_id)
    return RedirectResponse("/work", 303)


ROUTES = [Route("/posts/{post:int}/retry", posted(retry), methods=["POST"])]
