"""GitLab's webhooks: https://docs.gitlab.com/user/project/integrations/webhook_events/."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from patchgen_service.forges.delivery import Delivery
from patchgen_service.forges.payloads import HEADS, clean_text, decode, read_branch, read_sha, read_time

_CLOSED = ("close", "merge")


class GitlabProject(Struct):
    """A project."""

    path_with_namespace: str = ""


class GitlabUser(Struct):
    """A person."""

    username: str = ""


class GitlabCommit(Struct):
    """A commit."""

    id: str
    message: str = ""


class GitlabPush(Struct):
    """A push; ``commits`` are the newest twenty, oldest first."""

    ref: str
    before: str
    after: str
    project: GitlabProject
    user_username: str = ""
    commits: list[GitlabCommit] = []


class MergeRequest(Struct):
    """A merge request. ``oldrev`` is there when an update brought commits; a test of the hook has no ``action``."""

    iid: int
    source_branch: str
    target_branch: str
    source_project_id: int | None
    target_project_id: int
    last_commit: GitlabCommit
    action: str = ""
    oldrev: str = ""
    title: str = ""
    source: GitlabProject | None = None
    updated_at: str | None = None


class MergeRequestEvent(Struct):
    """What happened to a merge request."""

    object_attributes: MergeRequest
    project: GitlabProject
    user: GitlabUser | None = None


def read_gitlab(event: str, body: bytes) -> Delivery | str:
    """What an event says, without its delivery's id; or why it asks for nothing."""
    reader = _READERS.get(event)
    return reader(body) if reader else f"events '{event}' are not used"


def _read_push(body: bytes) -> Delivery | str:
    push = decode(body, GitlabPush)
    if not push.ref.startswith(HEADS):
        return f"{push.ref} is no branch"
    sha = read_sha(push.after)
    return Delivery(
        "",
        "push" if sha else "closed",
        read_branch(push.ref.removeprefix(HEADS)),
        sha,
        actor=clean_text(push.user_username),
        message=clean_text(next((commit.message for commit in push.commits if commit.id == sha), "")),
        before=read_sha(push.before),
        repository=push.project.path_with_namespace,
    )


def _read_merge_request(body: bytes) -> Delivery | str:
    event = decode(body, MergeRequestEvent)
    request = event.object_attributes
    if request.action not in ("open", "reopen", "", *_CLOSED) and not request.oldrev:
        return f"a merge request with action '{request.action}' is the same code"
    is_fork = request.source_project_id != request.target_project_id
    owner = request.source.path_with_namespace.rpartition("/")[0] if request.source else ""
    return Delivery(
        "",
        "closed" if request.action in _CLOSED else "pull_request",
        read_branch(f"{owner}:{request.source_branch}" if is_fork else request.source_branch, is_fork),
        read_sha(request.last_commit.id),
        request.iid,
        is_fork,
        clean_text(event.user.username if event.user else ""),
        clean_text(request.title),
        read_sha(request.oldrev),
        event.project.path_with_namespace,
        read_branch(request.target_branch),
        f"refs/merge-requests/{request.iid}/head",
        happened=read_time(request.updated_at),
    )


_READERS: dict[str, Callable[[bytes], Delivery | str]] = {
    "Push Hook": _read_push,
    "Merge Request Hook": _read_merge_request,
}
