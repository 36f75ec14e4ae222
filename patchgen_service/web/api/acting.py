"""The part of the API that changes something: runs begun, results handed in, approvals."""

from __future__ import annotations

import base64
import binascii
import secrets
from typing import Any

from fastapi import APIRouter, HTTPException

from patchgen_core.errors import PatchgenError
from patchgen_service.database.tables import Repository, Run
from patchgen_service.records.approvals import ApprovalRefused, approve
from patchgen_service.records.baselines import choose_baseline
from patchgen_service.records.files import keep_file
from patchgen_service.records.machines import EnvironmentFacts, set_environment
from patchgen_service.records.new_runs import RunCause, begin_run
from patchgen_service.records.repositories import add_repository, remove_repository
from patchgen_service.records.results import add_results, turned_red
from patchgen_service.records.runs import (
    RunEnded,
    RunProblem,
    cancel_run,
    end_run,
    expect_items,
    is_pushed,
    make_run_token,
    start_run,
)
from patchgen_service.store import StoreError
from patchgen_service.web.api.callers import Call, Caller, CallerOf
from patchgen_service.web.api.reading import ERRORS, repository_value
from patchgen_service.web.api.shapes import (
    Accepted,
    ApprovalValue,
    BegunRun,
    NamedRun,
    NewApproval,
    NewRepository,
    NewRun,
    Problem,
    PushedEnd,
    PushedFile,
    PushedResults,
    RepositoryId,
    RepositoryValue,
    RunId,
    StoredFile,
)

_ENDED: dict[int | str, dict[str, Any]] = {
    409: {"model": Problem, "description": "the run has ended, or has changed meanwhile"}
}
_FULL: dict[int | str, dict[str, Any]] = {507: {"model": Problem, "description": "the disk is full"}}
router = APIRouter(responses={**ERRORS, **_ENDED}, tags=["change"])


@router.post("/repositories", status_code=201)
def post_repository(new: NewRepository, caller: CallerOf) -> RepositoryValue:
    """Add a repository; that takes a token of an administrator with the scope ``admin``."""
    with caller.writing() as call:
        _check_administrator(call)
        try:
            columns = new.model_dump()
            columns["branches"] = columns["branches"] or [new.default_branch]
            repository = add_repository(call.session, call.site.secrets, call.name, call.site.clock(), **columns)
        except PatchgenError as error:
            raise HTTPException(409, str(error)) from None
        return repository_value(repository)


@router.delete("/repositories/{repository}", status_code=204)
def delete_repository(repository: RepositoryId, caller: CallerOf) -> None:
    """Forget a repository with all of its runs, for good; that takes a token as for adding one."""
    with caller.writing() as call:
        _check_administrator(call)
        row = call.repository(repository, "admin")
        try:
            runs = remove_repository(call.session, row, call.name, call.site.clock(), call.site.settings.repositories)
        except PatchgenError as error:
            raise HTTPException(409, str(error)) from None
    caller.site.work.forget_runs(runs)


@router.post("/repositories/{repository}/runs", status_code=201)
def post_run_of_repository(repository: RepositoryId, new: NewRun, caller: CallerOf) -> BegunRun:
    """Begin a run: the service carries it out, or with ``push`` whoever began it."""
    with caller.writing() as call:
        begun = _begin(call, call.repository(repository, "push" if new.push else "run"), new)
    _announce(caller, begun, new)
    return begun


@router.post("/runs", status_code=201)
def post_run(new: NamedRun, caller: CallerOf) -> BegunRun:
    """Begin a run of a repository that is named."""
    with caller.writing() as call:
        begun = _begin(call, call.find_repository(new.repository, "push" if new.push else "run"), new)
    _announce(caller, begun, new)
    return begun


@router.post("/runs/{run}/results", responses=_FULL)
def post_results(run: RunId, pushed: PushedResults, caller: CallerOf) -> Accepted:
    """Hand in results of a run. Those that were handed in before change nothing."""
    try:
        with caller.writing() as call:
            row = call.pushed_run(run)
            now = call.site.clock()
            if row.status == "pending":
                start_run(call.session, row.id, "", now)
            if pushed.items is not None:
                expect_items(call.session, row.id, pushed.project, pushed.items)
            if pushed.environment is not None:
                environment = pushed.environment
                facts = EnvironmentFacts.of_packages(environment.python, environment.device, environment.packages)
                set_environment(call.session, row.id, facts, now)
            new = add_results(call.session, call.site.store, row, pushed.project, pushed.results, now)
            is_news = turned_red(call.session, row.id, new)
            accepted = Accepted(len(new), row.status)
    except RunEnded as error:
        raise HTTPException(409, str(error)) from None
    except ValueError as error:
        raise HTTPException(422, str(error)) from None
    except StoreError as error:
        raise HTTPException(507, str(error)) from None
    if is_news:
        caller.site.work.tell(run)
    return accepted


@router.post("/runs/{run}/files", status_code=201, responses=_FULL)
def post_file(run: RunId, pushed: PushedFile, caller: CallerOf) -> StoredFile:
    """Hand in a file of a run."""
    try:
        content = base64.b64decode(pushed.content, validate=False)
    except binascii.Error:
        raise HTTPException(422, "the content is not in base 64") from None
    if pushed.name.startswith("/") or ".." in pushed.name.split("/"):
        raise HTTPException(422, "the name is no path from the repository's root")
    try:
        with caller.writing() as call:
            row = call.pushed_run(run)
            if row.ended is not None:
                raise HTTPException(409, f"run {row.number} has ended")
            now = call.site.clock()
            return StoredFile(keep_file(call.session, call.site.store, row.id, pushed.kind, pushed.name, content, now))
    except StoreError as error:
        raise HTTPException(507, str(error)) from None


@router.post("/runs/{run}/end")
def post_end(run: RunId, pushed: PushedEnd, caller: CallerOf) -> Accepted:
    """Say that all results of a run are handed in, or why there are no more."""
    with caller.writing() as call:
        row = call.pushed_run(run)
        status = pushed.status
        problem = RunProblem(status, pushed.message) if status != "finished" else None
        accepted = Accepted(0, end_run(call.session, row.id, call.site.clock(), problem).status)
    caller.site.work.tell(run)
    return accepted


@router.post("/runs/{run}/cancel")
def post_cancel(run: RunId, caller: CallerOf) -> Accepted:
    """Cancel a run; one that has ended stays as it is."""
    with caller.writing() as call:
        row = call.run(run, "run")
        cancelled = cancel_run(call.session, row.id, call.name, call.site.clock())
        answer = Accepted(0, cancelled.status)
    caller.site.work.cancel(run)
    return answer


@router.post("/runs/{run}/approve", status_code=201)
def post_approval(run: RunId, new: NewApproval, caller: CallerOf) -> ApprovalValue:
    """Approve the regenerated files of a run, for exactly this digest."""
    try:
        with caller.writing() as call:
            row = call.run(run, "approve")
            assert call.bearer is not None
            approval = approve(call.session, row.id, call.bearer.person, new.digest, call.site.clock())
            value = ApprovalValue(
                approval.id,
                row.id,
                approval.digest,
                approval.state,
                approval.sha,
                approval.message,
                approval.created,
            )
    except ApprovalRefused as error:
        raise HTTPException(409, str(error)) from None
    caller.site.work.approve(value.id)
    return value


def _check_administrator(call: Call) -> None:
    """End a call that is not by a token of an administrator of the service."""
    bearer = call.bearer
    if bearer is None:
        raise HTTPException(401, "That needs a token.")
    is_allowed = bearer.person.is_admin and "admin" in bearer.token.scopes and bearer.token.repository_id is None
    if not is_allowed:
        raise HTTPException(403, "That needs an administrator's token with the scope 'admin'.")


def _begin(call: Call, repository: Repository, new: NewRun) -> BegunRun:
    cause = RunCause(
        "push" if new.push else "api",
        new.delivery or f"api-{secrets.token_hex(8)}",
        new.branch,
        new.sha,
        base=new.base,
        pull_request=new.pull_request,
        actor=call.name,
        subject=new.subject,
        author=new.author,
    )
    try:
        run = begin_run(call.session, repository, cause, call.site.clock())
    except ValueError as error:
        raise HTTPException(422, str(error)) from None
    if is_pushed(call.session, run) != new.push:  # a delivery that comes again has the run that it had
        who = "the service carries out" if new.push else "takes the results of a CI job"
        raise HTTPException(409, f"the delivery '{cause.delivery}' is that of run {run.number}, which {who}")
    if new.push and not run.baseline_reason:  # its commits are not looked at here
        choose_baseline(call.session, run.id, "", None)
    address = f"{call.site.settings.base_url}/runs/{run.id}"
    return BegunRun(run.id, run.number, run.status, address, _token(call, run) if new.push else "")


def _announce(caller: Caller, begun: BegunRun, new: NewRun) -> None:
    """Have a run carried out, or told of that is carried out elsewhere."""
    if new.push:
        caller.site.work.tell(begun.id)
    else:
        caller.site.work.begin(begun.id)


def _token(call: Call, run: Run) -> str:
    """A token for the results of a run; empty for one that has ended."""
    try:
        return make_run_token(call.session, run.id)
    except RunEnded:
        return ""
