"""Forgejo's and Gitea's webhooks: https://forgejo.org/docs/latest/user/webhooks/."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from patchgen_service.forges.delivery import Delivery
from patchgen_service.forges.payloads import HEADS, clean_text, decode, read_branch, read_sha, read_time

_RUN_ACTIONS = ("opened", "synchronized", "reopened")


class User(Struct):
    """A person."""

    login: str = ""
    username: str = ""


class ForgejoRepository(Struct):
    """A repository."""

    full_name: str = ""
    owner: User | None = None


class ForgejoCommit(Struct):
    """A commit."""

    message: str = ""


class ForgejoPush(Struct):
    """Event ``push``."""

    ref: str
    before: str
    after: str
    repository: ForgejoRepository
    sender: User | None = None
    head_commit: ForgejoCommit | None = None


class ForgejoSide(Struct):
    """One side of a pull request. ``ref`` is a whole reference where the request was pushed without a branch."""

    ref: str
    sha: str
    repo_id: int = 0
    repo: ForgejoRepository | None = None


class ForgejoRequest(Struct):
    """A pull request."""

    head: ForgejoSide
    base: ForgejoSide
    title: str = ""
    updated_at: str | None = None


class ForgejoRequestEvent(Struct):
    """Event ``pull_request``."""

    action: str
    number: int
    pull_request: ForgejoRequest
    repository: ForgejoRepository
    sender: User | None = None


class Deletion(Struct):
    """Event ``delete``, of a branch or tag."""

    ref: str
    ref_type: str
    repository: ForgejoRepository
    sender: User | None = None


def read_forgejo(event: str, body: bytes) -> Delivery | str:
    """What an event says, without its delivery's id; or why it asks for nothing."""
    reader = _READERS.get(event)
    return reader(body) if reader else f"events '{event}' are not used"


def _read_push(body: bytes) -> Delivery | str:
    push = decode(body, ForgejoPush)
    if not push.ref.startswith(HEADS):
        return f"{push.ref} is no branch"
    sha = read_sha(push.after)
    return Delivery(
        "",
        "push" if sha else "closed",
        read_branch(push.ref.removeprefix(HEADS)),
        sha,
        actor=_login(push.sender),
        message=clean_text(push.head_commit.message if push.head_commit else ""),
        before=read_sha(push.before),
        repository=push.repository.full_name,
    )


def _read_pull_request(body: bytes) -> Delivery | str:
    event = decode(body, ForgejoRequestEvent)
    if event.action not in (*_RUN_ACTIONS, "closed"):
        return f"a pull request that is {event.action} is the same code"
    head, base = event.pull_request.head, event.pull_request.base
    is_fork = head.repo_id != base.repo_id or head.repo is None or head.ref.startswith("refs/")
    owner = _login(head.repo.owner if head.repo else event.sender)
    branch = head.ref.removeprefix("refs/").removesuffix("/head")
    return Delivery(
        "",
        "closed" if event.action == "closed" else "pull_request",
        read_branch(f"{owner}:{branch}" if is_fork else head.ref, is_fork),
        read_sha(head.sha),
        event.number,
        is_fork,
        _login(event.sender),
        clean_text(event.pull_request.title),
        repository=event.repository.full_name,
        base=read_branch(base.ref),
        ref=f"refs/pull/{event.number}/head",
        happened=read_time(event.pull_request.updated_at),
    )


def _read_delete(body: bytes) -> Delivery | str:
    event = decode(body, Deletion)
    if event.ref_type != "branch":
        return f"a {event.ref_type} is no branch"
    return Delivery(
        "", "closed", read_branch(event.ref), actor=_login(event.sender), repository=event.repository.full_name
    )


def _login(user: User | None) -> str:
    return clean_text(user.login or user.username) if user else ""


_READERS: dict[str, Callable[[bytes], Delivery | str]] = {
    "push": _read_push,
    "pull_request": _read_pull_request,
    "delete": _read_delete,
}
