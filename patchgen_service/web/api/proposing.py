"""The part of the API that has releases of transformers proposed as pull requests."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, Field

from patchgen_service.database.tables import Release
from patchgen_service.records.proposals import ProposalNote, find_newest_release, note_proposal, read_proposal
from patchgen_service.web.api.callers import CallerOf
from patchgen_service.web.api.reading import ERRORS
from patchgen_service.web.api.shapes import RepositoryId

router = APIRouter(responses=ERRORS, tags=["releases"])


class NewProposal(BaseModel):
    """Which release is to be proposed; the newest where none is named."""

    version: str = Field("", max_length=40)


@router.post("/repositories/{repository}/proposals", status_code=202)
def post_proposal(repository: RepositoryId, new: NewProposal, caller: CallerOf) -> None:
    """Have a release proposed to a repository as a pull request, or its pull request brought up to date.

    It takes minutes; what became of it is read by ``GET`` at the same address.
    """
    with caller.writing() as call:
        row = call.repository(repository, "approve")
        if new.version and ("\0" in new.version or call.session.get(Release, new.version) is None):
            raise HTTPException(404, "No such release of transformers has been seen.")
        version = new.version or find_newest_release(call.session)
        if not version:
            raise HTTPException(404, "No release of transformers has been seen yet.")
        note_proposal(call.session, row, call.name, ProposalNote(version, "waiting", caller.site.clock()))
        number, name = row.id, call.name
    caller.site.work.propose_release(number, version, name)


@router.get("/repositories/{repository}/proposals")
def get_proposal(repository: RepositoryId, caller: CallerOf) -> ProposalNote | None:
    """What became of the newest proposal of a release to a repository; null where there was none."""
    with caller.reading() as call:
        return read_proposal(call.session, call.repository(repository).id)
