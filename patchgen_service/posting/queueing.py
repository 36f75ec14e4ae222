"""What a run's begin, start and end put into the outbox."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from pathlib import PurePosixPath

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from patchgen_core.files import short_hash
from patchgen_service.database.tables import Post, Repository, Run
from patchgen_service.database.words import UNFINISHED, PostKind
from patchgen_service.forges.access import ForgeAccess
from patchgen_service.forges.client import CheckRun, Status
from patchgen_service.posting.approving import PATCH_NAME
from patchgen_service.posting.comment import annotate_red, comment_body, offers_files, summary_body
from patchgen_service.posting.mail import mail_content
from patchgen_service.posting.outgoing import webhook_content
from patchgen_service.posting.words import conclusion, context, describe, is_red_already, run_address, status_state
from patchgen_service.records.approvals import digest_regenerated
from patchgen_service.records.audit import SERVICE
from patchgen_service.records.posts import queue_post
from patchgen_service.store import Store, StoreError
from patchgen_service.views.run import RunDetail, read_run

_NO_COMMENT = ("cancelled", "superseded")
_LONGEST_KEY = 280


def queue_run_posts(
    session: Session, run_id: str, base_url: str, now: datetime, access: ForgeAccess, store: Store
) -> None:
    """Queue what is to be told about a run and its approvals as they are; doing so again queues nothing more.

    A run with another release of transformers says nothing of its commit: the forge is not told, and owners get mail
    about what the release breaks if it is new, not if a bisection tries it.
    """
    detail, run = read_run(session, run_id), session.get(Run, run_id)
    if detail is None or run is None:
        return
    repository = session.get_one(Repository, run.repository_id)
    queue = _Queue(session, repository, detail, run, now)
    if run.transformers:
        is_new = detail.line.trigger == "release" and detail.line.actor != SERVICE
        if is_new and run.status not in UNFINISHED:
            _queue_mail(queue, detail, base_url)
        return
    if access.can_post(repository):
        _queue_forge(queue, detail, base_url, access.has_app(repository), _read_patch(detail, store))
    if run.status not in UNFINISHED:
        _queue_mail(queue, detail, base_url)
        _queue_webhooks(queue, detail, base_url)


class _Queue:
    """The outbox for one run as it is now."""

    def __init__(self, session: Session, repository: Repository, detail: RunDetail, run: Run, now: datetime) -> None:
        self.session, self.repository, self.run, self.now = session, repository, run, now
        self.status = "red" if is_red_already(detail) else run.status
        self.approvals = "".join(f" {line.id} {line.state}" for line in detail.approvals)

    def add(self, kind: PostKind, subject: str, content: dict[str, object]) -> None:
        """Add a post, once for each status of the run, and of its approvals where it tells of them.

        That a run has turned red which goes on counts as a status.
        """
        key = f"{subject} {self.run.id} {self.status}"
        if kind in ("check_run", "comment"):
            key += self.approvals if len(key + self.approvals) <= _LONGEST_KEY else short_hash(self.approvals)
        queue_post(self.session, self.repository.id, kind, subject, key, content, self.now, self.run)

    def has(self, subject: str) -> bool:
        """Whether a post of a subject was queued before."""
        return bool(self.session.scalar(select(exists().where(Post.subject == subject))))


def _read_patch(detail: RunDetail, store: Store) -> str:
    """The patch that an approval of a run has made; empty for none."""
    digest = next((file.digest for file in detail.files if (file.kind, file.name) == ("diff", PATCH_NAME)), "")
    try:
        return store.get(digest).decode("utf-8", "replace") if digest else ""
    except StoreError:
        return ""


def _queue_forge(queue: _Queue, detail: RunDetail, base_url: str, has_check_runs: bool, patch: str) -> None:
    run, address, name = queue.run, run_address(base_url, queue.run.id), context(detail)
    status = Status(status_state(detail), name, describe(detail), address)
    queue.add("status", f"status {run.repository_id} {run.sha} {name}", {"sha": run.sha, **asdict(status)})
    if has_check_runs:
        check_run = CheckRun(
            run.id,
            name,
            run.sha,
            address,
            conclusion(run.status),
            describe(detail),
            summary_body(detail, base_url, patch),
            annotate_red(detail) if run.status not in UNFINISHED else (),
            digest_regenerated(queue.session, run.id) if offers_files(detail) else "",
            "Get the regenerated files as a patch" if run.is_fork else "Commit the regenerated files",
        )
        queue.add("check_run", f"check run {run.id}", asdict(check_run))
    subject = f"comment {run.repository_id} {run.pull_request}"
    if not run.pull_request or run.status in (*UNFINISHED, *_NO_COMMENT):
        return
    if run.status != "passed" or detail.changed("fixed") or queue.has(subject):
        queue.add("comment", subject, {"number": run.pull_request, "body": comment_body(detail, base_url, patch)})


def _queue_mail(queue: _Queue, detail: RunDetail, base_url: str) -> None:
    """To the owners of what is newly red on a branch."""
    new = {result.path for result in detail.results if result.change == "new"}
    for address, folders in _addresses(queue.repository).items() if not queue.run.pull_request else ():
        if not _is_url(address) and (paths := _within(new, folders)):
            subject = f"mail {queue.run.id} {short_hash(address)}"
            queue.add("mail", subject, mail_content(detail, address, paths, base_url))


def _queue_webhooks(queue: _Queue, detail: RunDetail, base_url: str) -> None:
    """To whoever wants every run."""
    for address in filter(_is_url, _addresses(queue.repository)):
        subject = f"webhook {queue.run.id} {short_hash(address)}"
        queue.add("webhook", subject, webhook_content(detail, address, base_url))


def _is_url(owner: str) -> bool:
    return owner.startswith(("http://", "https://"))


def _addresses(repository: Repository) -> dict[str, list[str]]:
    """The folders of each mail address and URL that the repository names as an owner."""
    folders: dict[str, list[str]] = {}
    for folder, owners in repository.owners.items():
        for owner in owners.replace(",", " ").split():
            if "@" in owner or _is_url(owner):
                folders.setdefault(owner, []).append(folder)
    return folders


def _within(paths: Iterable[str], folders: Iterable[str]) -> set[str]:
    """The paths that lie in one of the folders; ``.`` holds all."""
    places = [PurePosixPath(folder) for folder in folders]
    return {path for path in paths if any(PurePosixPath(path).is_relative_to(place) for place in places)} | {
        path for path in paths if PurePosixPath(".") in places
    }
