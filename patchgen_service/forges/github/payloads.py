"""GitHub's webhooks: https://docs.github.com/en/webhooks/webhook-events-and-payloads."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from patchgen_service.forges.delivery import Delivery
from patchgen_service.forges.payloads import HEADS, clean_text, decode, read_branch, read_sha, read_time

APPROVE = "approve-"
"""What the identifier of the Approve button of a check run begins with; the digest of what was shown comes after."""
DIGEST_LENGTH = 12
"""So many characters of it: GitHub takes identifiers of 20."""
_RUN_ACTIONS = ("opened", "synchronize", "reopened")


class Account(Struct):
    """A person or an organisation."""

    login: str = ""
    id: int = 0


class RepositoryShape(Struct):
    """A repository."""

    full_name: str = ""


class CommitShape(Struct):
    """A commit."""

    id: str = ""
    message: str = ""


class Push(Struct):
    """Event ``push``."""

    ref: str
    before: str
    after: str
    repository: RepositoryShape
    sender: Account | None = None
    head_commit: CommitShape | None = None


class Side(Struct):
    """One side of a pull request; its repository is none when the fork was deleted."""

    ref: str
    sha: str
    repo: RepositoryShape | None = None
    user: Account | None = None


class PullRequestShape(Struct):
    """A pull request."""

    head: Side
    base: Side
    title: str = ""
    updated_at: str | None = None


class PullRequestEvent(Struct):
    """Event ``pull_request``."""

    action: str
    number: int
    pull_request: PullRequestShape
    repository: RepositoryShape
    sender: Account | None = None
    before: str = ""


class CheckSuiteShape(Struct):
    """A check suite; its branch is none for a fork's."""

    head_branch: str | None = None


class CheckRunShape(Struct):
    """A check run."""

    head_sha: str
    external_id: str | None = None
    check_suite: CheckSuiteShape | None = None


class RequestedAction(Struct):
    """A button."""

    identifier: str = ""


class CheckRunEvent(Struct):
    """Event ``check_run``."""

    action: str
    check_run: CheckRunShape
    repository: RepositoryShape
    sender: Account | None = None
    requested_action: RequestedAction | None = None


class Ping(Struct):
    """Event ``ping``."""

    repository: RepositoryShape | None = None


def read_github(event: str, body: bytes) -> Delivery | str:
    """What an event says, without its delivery's id; or why it asks for nothing."""
    reader = _READERS.get(event)
    return reader(body) if reader else f"events '{event}' are not used"


def _read_push(body: bytes) -> Delivery | str:
    push = decode(body, Push)
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
    event = decode(body, PullRequestEvent)
    if event.action not in (*_RUN_ACTIONS, "closed"):
        return f"a pull request that is {event.action} is the same code"
    head, base = event.pull_request.head, event.pull_request.base
    is_fork = head.repo is None or head.repo.full_name != event.repository.full_name
    return Delivery(
        "",
        "closed" if event.action == "closed" else "pull_request",
        read_branch(f"{_login(head.user)}:{head.ref}" if is_fork else head.ref, is_fork),
        read_sha(head.sha),
        event.number,
        is_fork,
        _login(event.sender),
        clean_text(event.pull_request.title),
        read_sha(event.before),
        event.repository.full_name,
        read_branch(base.ref),
        f"refs/pull/{event.number}/head",
        happened=read_time(event.pull_request.updated_at),
    )


def _read_check_run(body: bytes) -> Delivery | str:
    event = decode(body, CheckRunEvent)
    pressed = event.requested_action.identifier if event.requested_action else ""
    is_approval = event.action == "requested_action" and pressed.startswith(APPROVE)
    if event.action != "rerequested" and not is_approval:
        return f"a check run that is {event.action} is no news"
    suite = event.check_run.check_suite
    branch = suite.head_branch if suite else None
    return Delivery(
        "",
        "approve" if is_approval else "rerun",
        read_branch(branch) if branch else "",
        read_sha(event.check_run.head_sha),
        actor=_login(event.sender),
        repository=event.repository.full_name,
        run=clean_text(event.check_run.external_id),
        approves=clean_text(pressed.removeprefix(APPROVE)) if is_approval else "",
        actor_id=str(event.sender.id) if event.sender is not None and event.sender.id else "",
    )


def _read_ping(body: bytes) -> Delivery:
    repository = decode(body, Ping).repository
    return Delivery("", "ping", repository=repository.full_name if repository else "")


def _login(account: Account | None) -> str:
    return clean_text(account.login if account else "")


_READERS: dict[str, Callable[[bytes], Delivery | str]] = {
    "push": _read_push,
    "pull_request": _read_pull_request,
    "check_run": _read_check_run,
    "ping": _read_ping,
}
