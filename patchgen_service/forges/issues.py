"""What the APIs of GitHub and Forgejo have in common: statuses, comments, pull requests."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from patchgen_service.forges.api import Api, ForgeError
from patchgen_service.forges.client import DESCRIPTION_LIMIT, CheckRun, PullRequest, Status, cut


class _StatusAnswer(Struct):
    id: int
    context: str
    state: str = ""
    status: str = ""  # Forgejo's name for it
    description: str | None = ""
    target_url: str | None = ""


class _Comment(Struct):
    id: int
    body: str | None = ""


class _Repository(Struct):
    full_name: str


class _Side(Struct):
    ref: str
    sha: str
    repo: _Repository | None = None


class _PullRequest(Struct):
    number: int
    head: _Side
    base: _Side
    state: str = "open"
    html_url: str = ""
    body: str | UnsetType | None = UNSET
    merged: bool = False
    merged_at: str | None = None  # GitHub's lists have this alone


class IssuesClient:
    """A repository on GitHub or Forgejo. ``path`` is its path in the API, such as ``/repos/acme/models``."""

    has_check_runs = False

    def __init__(self, api: Api, name: str) -> None:
        self.api, self.name = api, name
        self.path = f"/repos/{name}"

    def set_status(self, sha: str, status: Status) -> str:
        """See :class:`~patchgen_service.forges.client.ForgeClient`."""
        description = cut(status.description, DESCRIPTION_LIMIT)
        answers = self.api.ask(
            "GET", f"{self.path}/commits/{sha}/statuses", list[_StatusAnswer], per_page=100, limit=100
        )
        ours = (answer for answer in answers if answer.context == status.context)
        if (newest := max(ours, key=lambda answer: answer.id, default=None)) is not None:
            last = (newest.state or newest.status, newest.description, newest.target_url)
            if last == (status.state, description, status.url):
                return str(newest.id)
        content = {
            "state": status.state,
            "context": status.context,
            "description": description,
            "target_url": status.url,
        }
        return str(self.api.ask("POST", f"{self.path}/statuses/{sha}", _StatusAnswer, content).id)

    def put_check_run(self, check_run: CheckRun) -> str:
        """Forgejo has none: the status says it."""
        raise ForgeError("refused", "this forge has no check runs")

    def put_comment(self, number: int, body: str, marker: str, remote: str) -> str:
        """See :class:`~patchgen_service.forges.client.ForgeClient`."""
        place = f"{self.path}/issues/{number}/comments"
        return self.put_one(place, f"{self.path}/issues/comments", body, marker, remote)

    def put_commit_comment(self, sha: str, body: str, marker: str, remote: str) -> str:
        """Forgejo has none."""
        raise ForgeError("refused", "this forge has no comments on commits")

    def put_one(self, place: str, edited: str, body: str, marker: str, remote: str) -> str:
        """Make or change one comment of a list at ``place``; ``edited`` is where comments are changed."""
        if remote:
            try:
                self.api.ask("PATCH", f"{edited}/{remote}", object, {"body": body})
                return remote
            except ForgeError as error:
                if error.kind != "missing":  # somebody deleted it
                    raise
        for comment in self.api.pages(place, _Comment):
            if marker in (comment.body or ""):
                if comment.body != body:
                    self.api.ask("PATCH", f"{edited}/{comment.id}", object, {"body": body})
                return str(comment.id)
        return str(self.api.ask("POST", place, _Comment, {"body": body}).id)

    def open_pull_request(self, branch: str, base: str, title: str, body: str) -> PullRequest:
        """See :class:`~patchgen_service.forges.client.ForgeClient`."""
        place, content = f"{self.path}/pulls", {"title": title, "body": body}
        for request in self.api.pages(place, _PullRequest, state="open"):
            if (request.head.ref, request.base.ref) == (branch, base) and not self._read(request).is_fork:
                if request.body != body:
                    self.api.ask("PATCH", f"{place}/{request.number}", object, content)
                return self._read(request)
        return self._read(self.api.ask("POST", place, _PullRequest, {**content, "head": branch, "base": base}))

    def find_pull_request(self, branch: str, base: str) -> PullRequest | None:
        """See :class:`~patchgen_service.forges.client.ForgeClient`."""
        owner = self.name.partition("/")[0]
        query = {"state": "all", "head": f"{owner}:{branch}", "base": base}  # Forgejo knows the first alone
        for request in self.api.pages(f"{self.path}/pulls", _PullRequest, **query):
            if (request.head.ref, request.base.ref) == (branch, base) and not self._read(request).is_fork:
                return self._read(request)
        return None

    def close_pull_request(self, number: int, body: str) -> None:
        """See :class:`~patchgen_service.forges.client.ForgeClient`."""
        self.api.ask("PATCH", f"{self.path}/pulls/{number}", object, {"state": "closed", "body": body})

    def read_pull_request(self, number: int) -> PullRequest:
        """See :class:`~patchgen_service.forges.client.ForgeClient`."""
        return self._read(self.api.ask("GET", f"{self.path}/pulls/{number}", _PullRequest))

    def _read(self, request: _PullRequest) -> PullRequest:
        head, base = request.head, request.base
        is_fork = head.repo is None or base.repo is None or head.repo.full_name != base.repo.full_name
        is_open, is_merged = request.state == "open", request.merged or request.merged_at is not None
        return PullRequest(request.number, head.ref, base.ref, head.sha, is_fork, is_open, request.html_url, is_merged)
