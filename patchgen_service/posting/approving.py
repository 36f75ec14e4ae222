"""Approvals carried out: the regenerated files, committed onto exactly the head for which they were shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_core.report import markdown
from patchgen_core.report.words import quantity
from patchgen_service.database.engine import Transactions
from patchgen_service.database.tables import Approval, Person, Repository, Run
from patchgen_service.database.words import ApprovalState
from patchgen_service.forges.api import ForgeError
from patchgen_service.forges.client import ForgeClient
from patchgen_service.git.errors import GitError
from patchgen_service.git.mirror import Mirror
from patchgen_service.git.writing import Author, commit_files, make_patch, push_commit
from patchgen_service.posting.words import one_line, run_address
from patchgen_service.records.approvals import digest_regenerated, end_approval, regenerated_files
from patchgen_service.records.files import keep_file
from patchgen_service.records.new_runs import begin_run, repeat_cause
from patchgen_service.store import Store, StoreError

RUN_TRAILER, DIGEST_TRAILER = "Patchgen-Run", "Patchgen-Digest"
"""What the last lines of the service's commits name: by these it knows them for its own."""
PATCH_NAME = "approved.patch"
MOST_IN_A_ROW = 3
"""Commits of the service without one of somebody else in between; more would be a loop."""


@dataclass(frozen=True)
class Workshop:
    """Where an approval is carried out.

    Attributes:
        client: the repository's forge; none where it has none.
        committer: who stands in commits as the one that made them.
        ref: the reference that git fetches a pull request's commit by; empty for a branch.
    """

    mirror: Mirror
    client: ForgeClient | None
    store: Store
    committer: Author
    base_url: str
    ref: str = ""


@dataclass(frozen=True)
class _Task:
    """An approval as it was read, with nothing of the database in it."""

    approval: int
    run: str
    number: int
    sha: str
    branch: str
    is_fork: bool
    digest: str
    author: Author
    created: datetime
    files: Mapping[str, bytes | None]


@dataclass(frozen=True)
class _Outcome:
    """What became of an approval; ``sha`` is the commit that was made, and ``is_head`` whether its branch is there."""

    state: ApprovalState
    sha: str = ""
    message: str = ""
    patch: bytes = b""
    is_head: bool = False


def carry_out_approval(transactions: Transactions, workshop: Workshop, approval_id: int, now: datetime) -> Approval:
    """Carry out a pending approval, and return it as it ended; one that has ended stays as it is.

    Whoever is interrupted calls it again: the same approval gives the same commit, which is on the branch already or
    is pushed then. Nothing is written to a fork, whose patch is stored for its author. What was committed is run.

    Raises:
        GitError, ForgeError: what may go better another time; the approval is still pending.
    """
    with transactions() as session:
        approval = session.get_one(Approval, approval_id)
        if approval.state != "pending":
            return approval
        task = _read_task(session, workshop.store, approval)
    outcome = task if isinstance(task, _Outcome) else _carry_out(workshop, task)
    with transactions() as session:
        if outcome.patch:
            keep_file(session, workshop.store, approval.run_id, "diff", PATCH_NAME, outcome.patch, now)
        approval = end_approval(session, approval_id, outcome.state, now, outcome.sha, outcome.message)
        if outcome.is_head and approval.sha == outcome.sha:
            _begin_run(session, approval, now)
        return approval


def _read_task(session: Session, store: Store, approval: Approval) -> _Task | _Outcome:
    run = session.get_one(Run, approval.run_id)
    if digest_regenerated(session, run.id) != approval.digest:
        return _Outcome("refused", message="the regenerated files are no longer those that were shown")
    try:
        files = {
            file.path: store.get(file.digest) if file.digest else None for file in regenerated_files(session, run.id)
        }
    except StoreError as error:
        return _Outcome("refused", message=str(error))
    person = session.scalars(select(Person).filter_by(id=approval.person_id)).one()
    author = Author(one_line(person.name), one_line(person.email) or "nobody@patchgen.invalid")
    return _Task(
        approval.id,
        run.id,
        run.number,
        run.sha,
        run.branch,
        run.is_fork,
        approval.digest,
        author,
        approval.created,
        files,
    )


def _carry_out(workshop: Workshop, task: _Task) -> _Outcome:
    try:
        return _commit(workshop, task)
    except GitError as error:
        if error.is_retried:
            raise
        return _Outcome("refused", message=str(error))


def _begin_run(session: Session, approval: Approval, now: datetime) -> None:
    """Begin the run of the commit that was made: when it is green, it is what later runs are compared with."""
    run = session.get_one(Run, approval.run_id)
    person = session.get_one(Person, approval.person_id)
    name = one_line(person.name)
    first = repeat_cause(session, run, "approval", f"approval-{approval.id}", name)
    subject = _subject(len(regenerated_files(session, run.id)))
    cause = replace(first, sha=approval.sha, before=run.sha, subject=subject, author=name, committed=now)
    begin_run(session, session.get_one(Repository, run.repository_id), cause, now)


def _commit(workshop: Workshop, task: _Task) -> _Outcome:
    mirror = workshop.mirror
    mirror.fetch([workshop.ref] if workshop.ref else [])
    message = _message(task, workshop.base_url)
    sha = commit_files(mirror, task.sha, task.files, message, task.author, workshop.committer, task.created)
    if task.is_fork:
        return _Outcome("patch", sha, "nothing is written to a fork", make_patch(mirror, task.sha, sha))
    try:
        return _push(workshop, task, sha)
    except GitError as error:
        if error.kind != "moved":
            raise
        mirror.fetch()
        return _push(workshop, task, sha)


def _push(workshop: Workshop, task: _Task, sha: str) -> _Outcome:
    mirror = workshop.mirror
    head = mirror.resolve(task.branch)
    if mirror.is_ancestor(sha, head):
        return _Outcome("committed", sha, is_head=head == sha)
    if head != task.sha and mirror.is_ancestor(task.sha, head) and _has_files(mirror, head, task.files):
        return _Outcome("committed", head, "these files are on the branch already")
    if head != task.sha:
        return _Outcome("refused", message=f"'{task.branch}' has moved on to {head[:10]} meanwhile")
    if _is_loop(mirror, head):
        reason = f"the last {MOST_IN_A_ROW} commits of '{task.branch}' are approvals already, and it drifted again"
        return _Outcome("refused", message=reason)
    try:
        push_commit(mirror, sha, task.branch, head)
    except GitError as error:
        if error.kind not in ("declined", "authentication"):
            raise
        return _propose(workshop, task, sha, str(error))
    return _Outcome("committed", sha, is_head=True)


def _has_files(mirror: Mirror, head: str, files: Mapping[str, bytes | None]) -> bool:
    """Whether all files are at a commit as they should be, as when the same was approved in two runs at once."""
    return all(mirror.read_file(head, path) == content for path, content in files.items())


def _propose(workshop: Workshop, task: _Task, sha: str, reason: str) -> _Outcome:
    """Open a pull request with the commit; hand out its patch where that is not allowed either."""
    branch = f"patchgen/approval-{task.number}-{task.digest[:8]}"
    patch = _Outcome("patch", sha, reason, make_patch(workshop.mirror, task.sha, sha))
    if workshop.client is None:
        return patch
    try:
        push_commit(workshop.mirror, sha, branch, "")
        title = f"Regenerate {quantity(len(task.files), 'file')} of {one_line(task.branch, 80)}"
        run = f"[run {task.number}]({run_address(workshop.base_url, task.run)})"
        body = f"The files as the configs make them, as approved by {markdown.escape(task.author.name)} in {run}."
        request = workshop.client.open_pull_request(branch, task.branch, title, body)
    except GitError as error:
        if error.is_retried:
            raise
        return patch
    except ForgeError as error:
        if not error.is_final:
            raise
        return patch
    return _Outcome("proposed", sha, request.url)


def _is_loop(mirror: Mirror, head: str) -> bool:
    newest = mirror.read_log(head, limit=MOST_IN_A_ROW)
    return len(newest) == MOST_IN_A_ROW and all(commit.read_trailer(DIGEST_TRAILER) for commit in newest)


def _subject(files: int) -> str:
    return f"Regenerate {quantity(files, 'file')}"


def _message(task: _Task, base_url: str) -> str:
    paths = [*(f"- {one_line(path)}" for path in sorted(task.files))]
    lines = [
        _subject(len(task.files)),
        "",
        f"As approved by {task.author.name} in {run_address(base_url, task.run)}:",
        *paths,
        "",
        f"{RUN_TRAILER}: {task.run}",
        f"{DIGEST_TRAILER}: {task.digest}",
    ]
    return "\n".join(lines) + "\n"
