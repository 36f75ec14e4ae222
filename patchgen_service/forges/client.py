"""What the service asks of a forge, the same for all: each thing can be asked again and is done once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

StatusState = Literal["pending", "success", "failure", "error"]
Level = Literal["failure", "warning", "notice"]
DESCRIPTION_LIMIT = 140
"""Characters of a status; GitHub's limit is the lowest."""


@dataclass(frozen=True)
class Status:
    """What a commit is said to be, below a ``context`` that stands for the service."""

    state: StatusState
    context: str
    description: str
    url: str


@dataclass(frozen=True)
class Annotation:
    """A remark at a line of a file; ``path`` is from the repository's root."""

    path: str
    line: int
    level: Level
    title: str
    message: str


@dataclass(frozen=True)
class CheckRun:
    """GitHub's page of a run.

    Attributes:
        run: the service's id of the run, by which its check run is recognised.
        conclusion: such as ``success`` or ``failure``; empty while it runs.
        approval: digest of the regenerated files that its button approves; empty for no button.
        approval_text: what the button does, in at most 40 characters.
    """

    run: str
    name: str
    sha: str
    url: str
    conclusion: str
    title: str
    summary: str
    annotations: tuple[Annotation, ...] = ()
    approval: str = ""
    approval_text: str = "Commit the regenerated files"


@dataclass(frozen=True)
class PullRequest:
    """A pull request; ``sha`` is the head of ``branch``, which is in another repository where it is a fork's."""

    number: int
    branch: str
    base: str
    sha: str
    is_fork: bool
    is_open: bool
    url: str
    is_merged: bool = False


class ForgeClient(Protocol):
    """A forge, for one repository. Every method raises a :class:`~patchgen_service.forges.api.ForgeError`."""

    has_check_runs: bool

    def set_status(self, sha: str, status: Status) -> str:
        """Say what a commit is, unless that is the last thing that was said of it; returns the status's id."""
        ...

    def put_check_run(self, check_run: CheckRun) -> str:
        """Make or change the check run of a run; returns its id."""
        ...

    def put_comment(self, number: int, body: str, marker: str, remote: str) -> str:
        """Make or change one comment on a pull request.

        Args:
            marker: a text in the body that nobody else can know, by which the comment is recognised.
            remote: its id, where it is known already.

        Returns: its id.
        """
        ...

    def put_commit_comment(self, sha: str, body: str, marker: str, remote: str) -> str:
        """Make or change one comment on a commit, as on a pull request."""
        ...

    def open_pull_request(self, branch: str, base: str, title: str, body: str) -> PullRequest:
        """Open a pull request, or change the open one of the same branches."""
        ...

    def find_pull_request(self, branch: str, base: str) -> PullRequest | None:
        """The newest pull request of two branches of the repository itself, open or not."""
        ...

    def close_pull_request(self, number: int, body: str) -> None:
        """Close a pull request, whose text then says why."""
        ...

    def read_pull_request(self, number: int) -> PullRequest:
        """A pull request as it is now."""
        ...


def cut(text: str, most: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"
