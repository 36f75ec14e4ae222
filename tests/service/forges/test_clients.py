from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import httpx
import pytest

from patchgen_service.forges.api import ForgeError
from patchgen_service.forges.client import Annotation, CheckRun, ForgeClient, Status
from patchgen_service.forges.clients import make_client
from patchgen_service.forges.github.client import GithubClient
from tests.service.forges.forge_server import TOKEN, Fault, ForgeServer
from tests.service.forges.github_app import make_app

_SHA = "c" * 40
_STATUS = Status("failure", "patchgen", "2 new, 1 known", "https://gate.example.org/runs/1")
_CHECK_RUN = CheckRun("1-7-abc", "patchgen", _SHA, "https://gate.example.org/runs/1", "failure", "2 new", "Text")


@pytest.fixture(params=["github", "gitlab", "forgejo"])
def server(request: pytest.FixtureRequest) -> Iterator[ForgeServer]:
    server = ForgeServer(request.param)
    yield server
    server.close()


@pytest.fixture
def github() -> Iterator[ForgeServer]:
    server = ForgeServer("github")
    yield server
    server.close()


@functools.cache
def _http(seconds: float) -> httpx.Client:
    """Reading the machine's certificates for each test would take longer than the tests."""
    return httpx.Client(timeout=seconds)


def _client(server: ForgeServer, token: str = "", seconds: float = 5) -> ForgeClient:
    """A client, of an app where there can be one."""
    if server.forge == "github" and not token:
        grant = make_app(server, _http(5)).read_token("acme/models")
        return GithubClient(_http(seconds), server.url, "acme/models", grant, is_app=True)
    client = make_client(_http(seconds), server.forge, server.url, "acme/models", token or TOKEN)
    assert client is not None
    return client


def test_a_status_is_set_once_until_it_changes(server):
    client = _client(server)
    assert client.set_status(_SHA, _STATUS) == client.set_status(_SHA, _STATUS)
    assert len(server.statuses) == 1
    client.set_status(_SHA, replace(_STATUS, state="success"))
    client.set_status(_SHA, _STATUS)
    assert len(server.statuses) == 3
    words = {"gitlab": ["failed", "success", "failed"]}.get(server.forge, ["failure", "success", "failure"])
    assert [status.get("state") or status["status"] for status in server.statuses] == words


def test_a_long_description_is_cut_and_still_recognised(server):
    client = _client(server)
    for _ in range(2):
        client.set_status(_SHA, replace(_STATUS, description="x" * 500))
    assert [len(status["description"]) for status in server.statuses] == [140]


def test_one_comment_is_edited_in_place(server):
    client, marker = _client(server), "<!-- patchgen:5f3e -->"
    remote = client.put_comment(5, f"{marker} one", marker, "")
    assert client.put_comment(5, f"{marker} two", marker, remote) == remote
    assert [comment["body"] for comment in server.comments] == [f"{marker} two"]


def test_a_comment_whose_id_was_never_recorded_is_found_by_its_marker(server):
    server.comments += [{"id": number, "number": 5, "body": f"talk {number}"} for number in range(1, 251)]
    client, marker = _client(server), "<!-- patchgen:5f3e -->"
    remote = client.put_comment(5, f"{marker} one", marker, "")
    server.writes.clear()
    assert client.put_comment(5, f"{marker} one", marker, "") == remote
    assert server.writes == []
    client.put_comment(5, f"{marker} two", marker, "")
    assert [comment["body"] for comment in server.comments if marker in comment["body"]] == [f"{marker} two"]


def test_a_comment_that_somebody_deleted_is_written_anew(server):
    assert _client(server).put_comment(5, "<!-- m --> one", "<!-- m -->", "77") == "1"
    assert len(server.comments) == 1


def test_a_pull_request_is_opened_once_and_its_text_follows(server):
    client = _client(server)
    first = client.open_pull_request("patchgen/fix", "main", "Regenerate", "One file.")
    again = client.open_pull_request("patchgen/fix", "main", "Regenerate", "Two files.")
    assert first == again == client.read_pull_request(first.number)
    assert (first.branch, first.base, first.is_fork, first.is_open) == ("patchgen/fix", "main", False, True)
    assert len(server.pull_requests) == 1
    assert (server.pull_requests[0].get("body") or server.pull_requests[0]["description"]) == "Two files."
    other = client.open_pull_request("patchgen/fix", "release", "Regenerate", "One file.")
    assert other.number != first.number


def test_somebodys_pull_request_from_a_branch_of_the_same_name_in_a_fork_is_left_alone(server):
    client = _client(server)
    client.open_pull_request("patchgen/fix", "main", "Theirs", "Text.")
    if server.forge == "gitlab":
        server.pull_requests[0]["source_project_id"] = 9
    else:
        server.pull_requests[0]["head"]["repo"] = {"full_name": "mallory/models"}
    ours = client.open_pull_request("patchgen/fix", "main", "Ours", "Text.")
    assert ours.number == 2
    assert server.pull_requests[0]["title"] == "Theirs"


def test_a_pull_request_is_found_and_closed(server):
    client = _client(server)
    assert client.find_pull_request("patchgen/fix", "main") is None
    client.open_pull_request("patchgen/fix", "main", "Regenerate", "One file.")
    for number in range(60):
        client.open_pull_request(f"other/{number}", "main", "Other", "Text.")
    request = client.find_pull_request("patchgen/fix", "main")
    assert request is not None
    assert (request.number, request.is_open, request.is_merged) == (1, True, False)
    client.close_pull_request(1, "It is on main.")
    request = client.find_pull_request("patchgen/fix", "main")
    assert request is not None
    assert (request.is_open, request.is_merged) == (False, False)
    entry = server.pull_requests[0]
    assert (entry.get("body") or entry["description"]) == "It is on main."
    words = {"github": ("closed", "merged_at", "2026-11-23"), "gitlab": ("merged", "x", 1)}
    state, key, value = words.get(server.forge, ("closed", "merged", True))
    entry.update({"state": state, key: value})
    request = client.find_pull_request("patchgen/fix", "main")
    assert request is not None
    assert (request.is_open, request.is_merged) == (False, True)


def test_annotations_come_by_the_fifty_and_once(github):
    remarks = tuple(Annotation("models/a.py", line, "failure", "drift", f"line {line}") for line in range(120))
    client = _client(github)
    client.put_check_run(replace(_CHECK_RUN, conclusion=""))
    whole = replace(_CHECK_RUN, annotations=remarks, approval="5f3e" * 16)
    assert client.put_check_run(whole) == client.put_check_run(whole) == "1"
    (check_run,) = github.check_runs
    assert [remark["message"] for remark in check_run["annotations"]] == [f"line {line}" for line in range(120)]
    assert (check_run["status"], check_run["conclusion"], check_run["external_id"]) == (
        "completed",
        "failure",
        "1-7-abc",
    )
    assert check_run["actions"][0]["identifier"] == "approve-5f3e5f3e5f3e"
    assert check_run["annotations"][0]["start_line"] == 1


def test_annotations_go_on_where_a_broken_line_left_them(github):
    remarks = tuple(Annotation("a.py", line, "warning", "t", f"line {line}") for line in range(120))
    client = _client(github)
    github.faults, github.fault_methods = [Fault(500, is_late=True)], ("PATCH",)
    whole = replace(_CHECK_RUN, annotations=remarks)
    with pytest.raises(ForgeError):
        client.put_check_run(whole)
    client.put_check_run(whole)
    assert len(github.check_runs) == 1
    assert [remark["message"] for remark in github.check_runs[0]["annotations"]] == [f"line {i}" for i in range(120)]


def test_a_run_of_the_same_commit_has_a_check_run_of_its_own(github):
    client = _client(github)
    assert client.put_check_run(_CHECK_RUN) != client.put_check_run(replace(_CHECK_RUN, run="1-8-def"))


@pytest.mark.parametrize(
    ("fault", "kind", "wait"),
    [
        (Fault(500), "unavailable", None),
        (Fault(503, {"Retry-After": "120"}), "unavailable", timedelta(seconds=120)),
        (Fault(429, {"Retry-After": "7"}), "limited", timedelta(seconds=7)),
        (Fault(403, {"Retry-After": "60"}), "limited", timedelta(seconds=60)),
        (Fault(429), "limited", None),
        (Fault(403, body='{"message": "You have exceeded a secondary rate limit."}'), "limited", None),
        (Fault(403), "authentication", None),
        (Fault(422), "refused", None),
        (Fault(302, {"Location": "http://127.0.0.1:1/"}), "refused", None),
        (Fault(200, body="<html>maintenance</html>"), "unavailable", None),
        (Fault(), "unavailable", None),
        (Fault(seconds=0.5), "unavailable", None),
    ],
)
def test_what_goes_wrong_says_whether_to_try_again(server, fault, kind, wait):
    client = _client(server, seconds=0.3)
    server.faults = [fault]
    with pytest.raises(ForgeError) as failed:
        client.put_comment(5, "<!-- m -->", "<!-- m -->", "")
    assert (failed.value.kind, failed.value.retry_after) == (kind, wait)
    assert failed.value.is_final == (kind in ("authentication", "refused"))
    assert TOKEN not in str(failed.value)


def test_githubs_limit_says_when_it_ends(github):
    client = _client(github)
    github.faults = [Fault(403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9999999999"})]
    with pytest.raises(ForgeError) as failed:
        client.set_status(_SHA, _STATUS)
    assert failed.value.retry_after == timedelta(days=1)


@pytest.mark.parametrize("fault", [Fault(500, is_late=True), Fault(is_late=True), Fault(seconds=0.5, is_late=True)])
@pytest.mark.mostly_slow(3)
def test_what_was_posted_although_no_answer_came_is_not_posted_again(server, fault):
    def post_all(client: ForgeClient) -> None:
        client.set_status(_SHA, _STATUS)
        client.put_comment(5, "<!-- m --> text", "<!-- m -->", "")
        client.open_pull_request("patchgen/fix", "main", "Regenerate", "One file.")
        if client.has_check_runs:
            client.put_check_run(_CHECK_RUN)

    client = _client(server, seconds=0.3)
    server.fault_methods = ("POST",)
    for _ in range(4):
        server.faults = [replace(fault)]
        try:
            post_all(client)
        except ForgeError:
            continue
    server.faults = []
    post_all(client)
    assert [len(server.statuses), len(server.comments), len(server.pull_requests)] == [1, 1, 1]
    assert len(server.check_runs) == (1 if server.forge == "github" else 0)


def test_github_takes_check_runs_of_an_app_alone(github):
    client = _client(github, TOKEN)
    assert not client.has_check_runs
    with pytest.raises(ForgeError, match="must authenticate via a GitHub App"):
        client.put_check_run(_CHECK_RUN)


def test_a_wrong_token_is_told(server):
    with pytest.raises(ForgeError) as failed:
        _client(server, "other").set_status(_SHA, _STATUS)
    assert failed.value.kind == "authentication"


def test_a_repository_without_forge_or_token_has_no_client():
    with httpx.Client() as http:
        assert make_client(http, "none", "", "acme/models", TOKEN) is None
        assert make_client(http, "github", "", "acme/models", "") is None
