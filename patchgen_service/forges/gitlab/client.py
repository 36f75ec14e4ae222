"""GitLab's API: https://docs.gitlab.com/api/rest/."""

from __future__ import annotations

from urllib.parse import quote

import httpx
from msgspec import Struct

from patchgen_service.forges.api import Api, ForgeError
from patchgen_service.forges.client import DESCRIPTION_LIMIT, CheckRun, PullRequest, Status, StatusState, cut

_STATES: dict[StatusState, str] = {
    "pending": "running",
    "success": "success",
    "failure": "failed",
    "error": "failed",
}


class _CommitStatus(Struct):
    id: int
    name: str = ""
    status: str = ""
    description: str | None = ""
    target_url: str | None = ""


class _Note(Struct):
    id: int
    body: str = ""


class _MergeRequest(Struct):
    iid: int
    source_branch: str
    target_branch: str
    source_project_id: int | None
    target_project_id: int
    sha: str | None = ""
    state: str = "opened"
    web_url: str = ""
    description: str | None = ""


class GitlabClient:
    """A project on a GitLab server."""

    has_check_runs = False

    def __init__(self, http: httpx.Client, url: str, name: str, token: str) -> None:
        headers = {"PRIVATE-TOKEN": token, "User-Agent": "pytest-patchgen"}
        self.api = Api(http, f"{(url or 'https://gitlab.com').rstrip('/')}/api/v4", headers)
        self.path = f"/projects/{quote(name, safe='')}"

    def set_status(self, sha: str, status: Status) -> str:
        """See :class:`~patchgen_service.forges.client.ForgeClient`."""
        description, state = cut(status.description, DESCRIPTION_LIMIT), _STATES[status.state]
        place = f"{self.path}/repository/commits/{sha}/statuses"
        answers = self.api.ask("GET", place, list[_CommitStatus], name=status.context, per_page=100)
        ours = (answer for answer in answers if answer.name == status.context)
        newest = max(ours, key=lambda answer: answer.id, default=None)
        last = (newest.status, newest.description, newest.target_url) if newest is not None else None
        if newest is not None and last == (state, description, status.url):
            return str(newest.id)
        content = {"state": state, "name": status.context, "description": description, "target_url": status.url}
        try:
            return str(self.api.ask("POST", f"{self.path}/statuses/{sha}", _CommitStatus, content).id)
        except ForgeError as error:
            if "Cannot transition status" in str(error):  # it is in this state already, with other words
                return ""
            raise

    def put_check_run(self, check_run: CheckRun) -> str:
        """GitLab has none: the status says it."""
        raise ForgeError("refused", "this forge has no check runs")

    def put_comment(self, number: int, body: str, marker: str, remote: str) -> str:
        """See :class:`~patchgen_service.forges.client.ForgeClient`."""
        place = f"{self.path}/merge_requests/{number}/notes"
        if remote:
            try:
                self.api.ask("PUT", f"{place}/{remote}", object, {"body": body})
                return remote
            except ForgeError as error:
                if error.kind != "missing":  # somebody deleted it
                    raise
        for note in self.api.pages(place, _Note, sort="asc", order_by="created_at"):
            if marker in note.body:
                if note.body != body:
                    self.api.ask("PUT", f"{place}/{note.id}", object, {"body": body})
                return str(note.id)
        return str(self.api.ask("POST", place, _Note, {"body": body}).id)

    def put_commit_comment(self, sha: str, body: str, marker: str, remote: str) -> str:
        """GitLab's cannot be edited."""
        raise ForgeError("refused", "comments on commits of this forge cannot be edited")

    def open_pull_request(self, branch: str, base: str, title: str, body: str) -> PullRequest:
        """See :class:`~patchgen_service.forges.client.ForgeClient`."""
        place, content = f"{self.path}/merge_requests", {"title": title, "description": body}
        query: dict[str, str | int] = {"state": "opened", "source_branch": branch, "target_branch": base}
        for request in self.api.pages(place, _MergeRequest, **query):
            if not _read(request).is_fork:
                if request.description != body:
                    self.api.ask("PUT", f"{place}/{request.iid}", object, content)
                return _read(request)
        sides = {"source_branch": branch, "target_branch": base}
        return _read(self.api.ask("POST", place, _MergeRequest, {**content, **sides}))

    def find_pull_request(self, branch: str, base: str) -> PullRequest | None:
        """See :class:`~patchgen_service.forges.client.ForgeClient`."""
        query: dict[str, str | int] = {"source_branch": branch, "target_branch": base}
        requests = map(_read, self.api.pages(f"{self.path}/merge_requests", _MergeRequest, **query))
        return next((request for request in requests if not request.is_fork), None)

    def close_pull_request(self, number: int, body: str) -> None:
        """See :class:`~patchgen_service.forges.client.ForgeClient`."""
        content = {"state_event": "close", "description": body}
        self.api.ask("PUT", f"{self.path}/merge_requests/{number}", object, content)

    def read_pull_request(self, number: int) -> PullRequest:
        """See :class:`~patchgen_service.forges.client.ForgeClient`."""
        return _read(self.api.ask("GET", f"{self.path}/merge_requests/{number}", _MergeRequest))


def _read(request: _MergeRequest) -> PullRequest:
    return PullRequest(
        request.iid,
        request.source_branch,
        request.target_branch,
        request.sha or "",
        request.source_project_id != request.target_project_id,
        request.state == "opened",
        request.web_url,
        request.state == "merged",
    )
