"""The part of the API that only reads."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query

from patchgen_core.checks.result import pack
from patchgen_service.database.tables import Repository, Result, Run
from patchgen_service.records.results import read_result
from patchgen_service.store import StoreError
from patchgen_service.views.lines import RunLine, is_visible, read_lines
from patchgen_service.views.overview import BranchState, read_branches
from patchgen_service.views.run import ResultLine, RunDetail, read_results, read_run
from patchgen_service.web.api.callers import Call, CallerOf
from patchgen_service.web.api.shapes import (
    Branch,
    Invalid,
    Limit,
    Offset,
    Problem,
    RepositoryId,
    RepositoryValue,
    ResultId,
    RunId,
)
from patchgen_service.web.rendering import without_user

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "the body is not JSON"},
    401: {"model": Problem, "description": "the token is unknown, or there is none"},
    403: {"model": Problem, "description": "the token may not do that"},
    404: {"model": Problem, "description": "there is no such thing, or you may not read it"},
    422: {"model": Invalid, "description": "something is not valid"},
    429: {
        "model": Problem,
        "description": "too many calls; Retry-After says in how many seconds to try again",
    },
}
router = APIRouter(responses=ERRORS, tags=["read"])


@router.get("/repositories")
def list_repositories(caller: CallerOf) -> list[RepositoryValue]:
    """The repositories that the token may read, or that everybody may."""
    with caller.reading() as call:
        query = call.session.query(Repository).where(is_visible(call.visible)).order_by(Repository.name)
        return [repository_value(repository) for repository in query]


@router.get("/repositories/{repository}")
def get_repository(repository: RepositoryId, caller: CallerOf) -> RepositoryValue:
    """A repository."""
    with caller.reading() as call:
        return repository_value(call.repository(repository))


@router.get("/repositories/{repository}/branches")
def list_branches(repository: RepositoryId, caller: CallerOf) -> list[BranchState]:
    """Where the branches of a repository stand."""
    with caller.reading() as call:
        call.repository(repository)
        return read_branches(call.session, [Run.repository_id == repository])


@router.get("/repositories/{repository}/runs")
def list_runs(
    repository: RepositoryId,
    caller: CallerOf,
    branch: Annotated[Branch | None, Query(description="only of this branch")] = None,
    limit: Limit = 30,
    offset: Offset = 0,
) -> list[RunLine]:
    """The runs of a repository, newest first."""
    with caller.reading() as call:
        call.repository(repository)
        conditions = [Run.repository_id == repository]
        if branch is not None:
            conditions.append(Run.branch == branch)
        return read_lines(call.session, *conditions, limit=limit, offset=offset)


@router.get("/runs/{run}")
def get_run(run: RunId, caller: CallerOf) -> RunDetail:
    """A run with its results, each in a line."""
    with caller.reading() as call:
        call.run(run)
        return _detail(call, run)


@router.get("/runs/{run}/results")
def list_results(run: RunId, caller: CallerOf) -> list[ResultLine]:
    """The results of a run, each in a line."""
    with caller.reading() as call:
        call.run(run)
        return list(read_results(call.session, run))


@router.get("/results/{result}")
def get_result(result: ResultId, caller: CallerOf) -> dict[str, Any]:
    """A whole result, as ``patchgen gate --json`` has it."""
    with caller.reading() as call:
        row = call.session.get(Result, result)
        if row is None:
            raise HTTPException(404, "There is no such result, or you may not read it.")
        call.run(row.run_id)
        try:
            return pack(read_result(call.site.store, row))
        except StoreError as error:
            raise HTTPException(404, str(error)) from None


def repository_value(repository: Repository) -> RepositoryValue:
    """A repository as the API gives it, without secrets."""
    return RepositoryValue(
        repository.id,
        repository.name,
        without_user(repository.url),
        repository.forge,
        repository.default_branch,
        repository.branches,
        repository.projects,
        repository.is_active,
        repository.is_public,
    )


def _detail(call: Call, run: str) -> RunDetail:
    detail = read_run(call.session, run)
    assert detail is not None
    return detail
