"""GitHub's API: https://docs.github.com/en/rest."""

from __future__ import annotations

from typing import Any

import httpx
from msgspec import Struct, field

from patchgen_service.forges.api import Api
from patchgen_service.forges.client import Annotation, CheckRun, cut
from patchgen_service.forges.github.payloads import APPROVE, DIGEST_LENGTH
from patchgen_service.forges.issues import IssuesClient

GITHUB = "https://github.com"
MOST_ANNOTATIONS = 50
"""What one request takes; later ones add to them."""
_TITLE, _MESSAGE, _SUMMARY = 255, 8000, 60_000


class _Output(Struct):
    annotations_count: int = 0


class _CheckRun(Struct):
    id: int
    external_id: str | None = ""
    output: _Output = field(default_factory=_Output)


class _CheckRuns(Struct):
    check_runs: list[_CheckRun]


class GithubClient(IssuesClient):
    """A repository on GitHub, or on a GitHub Enterprise Server.

    Args:
        is_app: whether the token is that of an app: GitHub takes check runs from nobody else.
    """

    def __init__(self, http: httpx.Client, url: str, name: str, token: str, is_app: bool = False) -> None:
        super().__init__(Api(http, api_url(url), make_headers(token)), name)
        self.has_check_runs = is_app

    def put_check_run(self, check_run: CheckRun) -> str:
        """See :class:`~patchgen_service.forges.client.ForgeClient`.

        Annotations are added request by request; those that GitHub has are not sent again.
        """
        place, content = f"{self.path}/check-runs", _describe(check_run)
        answer = self._find(check_run)
        if answer is None:
            body = {**content, "head_sha": check_run.sha, "external_id": check_run.run}
            answer = self.api.ask("POST", place, _CheckRun, _with_output(body, check_run, 0))
            sent = MOST_ANNOTATIONS
        else:
            sent = answer.output.annotations_count
            self.api.ask("PATCH", f"{place}/{answer.id}", object, _with_output(content, check_run, sent))
            sent += MOST_ANNOTATIONS
        for start in range(sent, len(check_run.annotations), MOST_ANNOTATIONS):
            self.api.ask("PATCH", f"{place}/{answer.id}", object, _with_output(content, check_run, start))
        return str(answer.id)

    def put_commit_comment(self, sha: str, body: str, marker: str, remote: str) -> str:
        """See :class:`~patchgen_service.forges.client.ForgeClient`."""
        return self.put_one(f"{self.path}/commits/{sha}/comments", f"{self.path}/comments", body, marker, remote)

    def _find(self, check_run: CheckRun) -> _CheckRun | None:
        place = f"{self.path}/commits/{check_run.sha}/check-runs"
        query: dict[str, str | int] = {"check_name": check_run.name, "filter": "all", "per_page": 100}
        answers = self.api.ask("GET", place, _CheckRuns, **query)
        return next((answer for answer in answers.check_runs if answer.external_id == check_run.run), None)


def api_url(url: str) -> str:
    """The root of the API of a GitHub; ``url`` is what browsers go to, empty for github.com."""
    root = url.rstrip("/")
    return "https://api.github.com" if root in ("", GITHUB) else f"{root}/api/v3"


def make_headers(token: str) -> dict[str, str]:
    """What goes with every request."""
    return {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {token}",
        "X-GitHub-Api-Version": "2022-11-28",
        "User-Agent": "pytest-patchgen",
    }


def _describe(check_run: CheckRun) -> dict[str, Any]:
    content: dict[str, Any] = {"name": check_run.name, "details_url": check_run.url}
    if check_run.conclusion:
        content |= {"status": "completed", "conclusion": check_run.conclusion}
    else:
        content["status"] = "in_progress"
    identifier = f"{APPROVE}{check_run.approval[:DIGEST_LENGTH]}"
    button = {"label": "Approve", "description": check_run.approval_text, "identifier": identifier}
    content["actions"] = [button] if check_run.approval else []
    return content


def _with_output(content: dict[str, Any], check_run: CheckRun, start: int) -> dict[str, Any]:
    part = check_run.annotations[start : start + MOST_ANNOTATIONS]
    output: dict[str, Any] = {"title": cut(check_run.title, _TITLE), "summary": cut(check_run.summary, _SUMMARY)}
    if part:
        output["annotations"] = [_annotate(annotation) for annotation in part]
    return {**content, "output": output}


def _annotate(annotation: Annotation) -> dict[str, Any]:
    line = max(annotation.line, 1)
    return {
        "path": annotation.path,
        "start_line": line,
        "end_line": line,
        "annotation_level": annotation.level,
        "title": cut(annotation.title, _TITLE),
        "message": cut(annotation.message or annotation.title, _MESSAGE),
    }
