"""What buttons of pages do: approve, cancel, run again, run now; and files to take away."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from patchgen_service.database.tables import ArtifactUse, Person, Repository, Run
from patchgen_service.database.words import Role
from patchgen_service.records.approvals import ApprovalRefused, approve
from patchgen_service.records.new_runs import begin_run, repeat_cause
from patchgen_service.records.runs import cancel_run
from patchgen_service.store import StoreError
from patchgen_service.views.lines import RunLine, read_line
from patchgen_service.views.overview import read_branches
from patchgen_service.views.run import read_run
from patchgen_service.web.details import make_patch
from patchgen_service.web.forms import read_form
from patchgen_service.web.site import Site
from patchgen_service.web.visits import SESSION_COOKIE, Visitor, open_visit

Action = Callable[[Request, Mapping[str, str]], Response]


def posted(action: Action) -> Any:
    """What answers a form of this service with an action, away from the event loop."""

    async def answer(request: Request) -> Response:
        fields = await read_form(request, SESSION_COOKIE)
        return await run_in_threadpool(action, request, fields)

    return answer


def approve_run(request: Request, fields: Mapping[str, str]) -> Response:
    """Approve the files of a run, for exactly the digest that its page showed."""
    run, visitor = _find_run(request, "approver")
    site: Site = request.app.state.site
    try:
        with site.transactions() as session:
            approval = approve(session, run.id, _person(session, visitor), fields.get("digest", ""), site.clock())
    except ApprovalRefused as error:
        raise HTTPException(409, f"Nothing was approved: {error}.") from None
    site.work.approve(approval.id)
    return RedirectResponse(f"/runs/{run.id}#approve", 303)


def cancel(request: Request, fields: Mapping[str, str]) -> Response:
    """Cancel a run."""
    run, visitor = _find_run(request, "approver")
    site: Site = request.app.state.site
    with site.transactions() as session:
        cancel_run(session, run.id, visitor.name, site.clock())
    site.work.cancel(run.id)
    return RedirectResponse(f"/runs/{run.id}", 303)


def run_again(request: Request, fields: Mapping[str, str]) -> Response:
    """Run the same commit once more."""
    run, visitor = _find_run(request, "approver")
    return _begin(request, run, visitor)


def run_now(request: Request, fields: Mapping[str, str]) -> Response:
    """Run the commit that a branch was last seen at."""
    repository_id: int = request.path_params["repository"]
    branch = fields.get("branch", "").strip()
    with open_visit(request) as visit:
        visit.check_role(repository_id, "approver")
        states = read_branches(visit.session, [Run.repository_id == repository_id, Run.branch == branch])
        if not states:
            raise HTTPException(409, f"No commit of '{branch}' is known yet: its first run begins with the next push.")
        visitor = visit.visitor
    return _begin(request, states[0].newest, visitor)


def show_file(request: Request) -> Response:
    """A stored file of a run, to be taken away."""
    name = request.query_params.get("name", "")
    with open_visit(request) as visit:
        run = read_line(visit.session, request.path_params["run"])
        visit.check_visible(run.repository_id if run is not None else None)
        query = select(ArtifactUse.kind).where(
            ArtifactUse.run_id == request.path_params["run"],
            ArtifactUse.digest == request.path_params["digest"],
            ArtifactUse.name == name,
        )
        if visit.session.scalar(query.limit(1)) is None:
            raise HTTPException(404)
        try:
            data = visit.site.store.get(request.path_params["digest"])
        except StoreError as error:
            raise HTTPException(404, f"{str(error)[0].upper()}{str(error)[1:]}.") from None
    return _download(data, name.rpartition("/")[2])


def show_patch(request: Request) -> Response:
    """The regenerated files of a run as a patch for ``git apply``."""
    with open_visit(request) as visit:
        detail = read_run(visit.session, request.path_params["run"])
        visit.check_visible(detail.line.repository_id if detail is not None else None)
        assert detail is not None
        text = make_patch(visit, detail)
    return _download(text.encode(), f"patchgen-{detail.line.sha[:10]}.patch")


def _find_run(request: Request, role: Role) -> tuple[RunLine, Visitor]:
    with open_visit(request) as visit:
        run = read_line(visit.session, request.path_params["run"])
        visit.check_role(run.repository_id if run is not None else None, role)
        assert run is not None
        return run, visit.visitor


def _begin(request: Request, run: RunLine, visitor: Visitor) -> Response:
    site: Site = request.app.state.site
    with site.transactions() as session:
        first = session.get_one(Run, run.id)
        cause = repeat_cause(session, first, "manual", f"manual-{secrets.token_hex(8)}", visitor.name)
        begun = begin_run(session, session.get_one(Repository, run.repository_id), cause, site.clock())
    site.work.begin(begun.id)
    return RedirectResponse(f"/runs/{begun.id}", 303)


def _person(session: Session, visitor: Visitor) -> Person:
    return session.get_one(Person, visitor.person_id)


def _download(data: bytes, name: str) -> Response:
    safe = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "_" for letter in name)
    headers = {"content-disposition": f'attachment; filename="{safe or "file"}"'}
    return Response(data, media_type="text/plain; charset=utf-8", headers=headers)


ROUTES = [
    Route("/runs/{run}/approve", posted(approve_run), methods=["POST"]),
    Route("/runs/{run}/cancel", posted(cancel), methods=["POST"]),
    Route("/runs/{run}/again", posted(run_again), methods=["POST"]),
    Route("/runs/{run}/files/{digest}", show_file),
    Route("/runs/{run}/changes.patch", show_patch),
    Route("/repositories/{repository:int}/run", posted(run_now), methods=["POST"]),
]
