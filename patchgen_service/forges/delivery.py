"""What a forge told by a webhook, in words that are the same for all forges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DeliveryKind = Literal["push", "pull_request", "closed", "rerun", "approve", "ping"]
"""``closed``: a branch was deleted, or a pull request merged or closed. ``rerun`` and ``approve``: buttons of a check
run. ``ping``: the webhook was set up."""


@dataclass(frozen=True)
class Delivery:
    """A webhook whose signature is right.

    Deliveries arrive out of order and more than once. ``sha`` is where the branch was when the event happened; whoever
    begins a run asks git where it is now.

    Attributes:
        delivery: the forge's id of it, the same when it is sent again.
        branch: the branch; ``owner:branch`` for one of a fork, which may have the name of a branch here.
        sha: the branch's head; empty when it was deleted.
        pull_request: its number; 0 for none.
        is_fork: whether the commit comes from a fork, to which nothing is written.
        actor: who did it, as the forge names people; ``actor_id`` is their number there, which no other gets.
        message: of the head commit, or the title of the pull request.
        before: the head before a push; empty for a new branch.
        repository: path of the repository on its forge, such as ``acme/models``.
        base: the branch that the pull request is to be merged into.
        ref: the reference that git fetches the commit by, where it is on no branch of the repository.
        run: the run whose button was pressed; the service's own id.
        approves: how the digest of the files begins that the button approves.
        digest: SHA-256 of what was received.
        happened: when the pull request was changed last, by the forge's clock: in UTC, as ISO 8601 has it, so that
            texts are in the order of times; empty where that is not told.
    """

    delivery: str
    kind: DeliveryKind
    branch: str = ""
    sha: str = ""
    pull_request: int = 0
    is_fork: bool = False
    actor: str = ""
    message: str = ""
    before: str = ""
    repository: str = ""
    base: str = ""
    ref: str = ""
    run: str = ""
    approves: str = ""
    actor_id: str = ""
    digest: str = ""
    happened: str = ""


@dataclass(frozen=True)
class Ignored:
    """A delivery that is genuine and asks for nothing, and why."""

    delivery: str
    reason: str


@dataclass(frozen=True)
class Refused:
    """A delivery that is not believed or not understood: why, and the HTTP status to answer with."""

    reason: str
    status: int
