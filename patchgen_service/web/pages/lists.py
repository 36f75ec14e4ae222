"""The pages of approvals, of what is under way, and of who did what."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchgen_service.views.approvals import read_approval_list
from patchgen_service.views.audit import read_audit
from patchgen_service.views.work import read_work
from patchgen_service.web.rendering import render
from patchgen_service.web.visits import open_visit

_ENTRIES = 100


def show_approvals(request: Request) -> Response:
    """What waits for an approval, and what was approved."""
    with open_visit(request) as visit:
        approvals = read_approval_list(visit.session, visit.visitor.visible)
    return render(request, "approvals.html", approvals=approvals)


def show_work(request: Request) -> Response:
    """Runs under way, workers, and what is still to be posted."""
    with open_visit(request) as visit:
        work = read_work(visit.session, visit.visitor.visible)
    return render(request, "work_live.html" if "live" in request.query_params else "work.html", work=work)


def show_audit(request: Request) -> Response:
    """Who did what, and when."""
    words = request.query_params.get("q", "")[:200]
    before = request.query_params.get("before", "")
    with open_visit(request) as visit:
        if not visit.visitor.name:
            raise HTTPException(403, "Sign in to see who did what.")
        last = int(before) if before.isdecimal() and len(before) < 16 else None
        entries = read_audit(visit.session, visit.visitor.visible, _ENTRIES + 1, last, words)
    values: dict[str, Any] = {"entries": entries[:_ENTRIES], "has_more": len(entries) > _ENTRIES, "words": words}
    return render(request, "audit.html", **values)


ROUTES = [Route("/approvals", show_approvals), Route("/work", show_work), Route("/audit", show_audit)]
