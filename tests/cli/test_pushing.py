"""Results handed to a service while the gate runs: what it is told, and that its failures change no verdict."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from patchgen_core.checks.result import CheckResult, pack
from patchgen_core.cli import pushing
from patchgen_core.cli.ci_job import JobCommit, describe_commit
from patchgen_core.cli.pushing import push_results
from tests.conftest import CONFIG, PATCH, Workspace

CHECKS = "--checks=drift,contract"


class Service:
    """Notes what it is handed, and answers as the service's API is described to."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, Any]]] = []
        self.refusals: list[int] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.requests.append((self.path, self.headers["Authorization"], body))
                status = service.refusals.pop(0) if service.refusals else 200
                answer = {"id": "1-2-abc", "number": 2, "address": f"{service.url}/runs/1-2-abc", "token": "pgrun_own"}
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(answer if status == 200 else {"detail": "not today"}).encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.server.shutdown()
    service.server.server_close()


@pytest.fixture
def checked_in(gated: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """The clean project, in a git repository and no CI job."""
    for name in ("GITHUB_REPOSITORY", "GITHUB_EVENT_PATH", "CI_PROJECT_PATH", "CI_COMMIT_SHA", "GITHUB_REF_NAME"):
        monkeypatch.delenv(name, raising=False)
    git(gated.root, "init", "-q", "-b", "main")
    git(gated.root, "remote", "add", "origin", "git@git.acme.dev:acme/models.git")
    commit(gated.root)
    return gated


def git(folder: Path, *arguments: str) -> str:

    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    done = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder: Path) -> str:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "Begin")
    return git(folder, "rev-parse", "HEAD")


def test_service_is_told_of_the_commit_and_each_result(checked_in: Workspace, service: Service) -> None:
    checked_in.config(PATCH.replace("* 2", "* 5"))
    sha = commit(checked_in.root)
    done = checked_in.patchgen("gate", CHECKS, f"--push={service.url}/", PATCHGEN_TOKEN="pgtok_mine")
    assert done.returncode == 1
    assert f"results: {service.url}/runs/1-2-abc" in done.stderr
    (path, token, begun), *results, (last, last_token, end) = service.requests
    assert (path, token) == ("/api/v1/runs", "Bearer pgtok_mine")
    assert begun == {
        "repository": "acme/models", "branch": "main", "sha": sha, "base": "", "pull_request": 0, "delivery": "",
        "push": True,
    }  # fmt: skip
    assert (last, last_token, end) == ("/api/v1/runs/1-2-abc/end", "Bearer pgrun_own", {"status": "finished"})
    assert {(path, token) for path, token, _ in results} == {("/api/v1/runs/1-2-abc/results", "Bearer pgrun_own")}
    assert next(value["items"] for _, _, value in results if "items" in value) == 3
    handed = {result["item"]: result["status"] for _, _, value in results for result in value["results"]}
    assert handed == {
        f"proj/models/{CONFIG}::drift": "drifted",
        f"proj/models/{CONFIG}::contract": "clean",
        "pyproject.toml::orphans": "clean",
    }


def test_results_that_are_large_together_are_handed_in_one_after_another(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushing, "_MOST_CHARACTERS", 5000)
    results = [CheckResult("m", "m.py", 1, "drift", "failed", item=str(n), reason="x" * 2000) for n in range(8)]
    with push_results(service.url, "pgtok_mine", JobCommit("acme/models", "a" * 40, "main")) as send:
        for result in results:
            send({"result": pack(result)})
        send({"end": {}})
    calls = [body["results"] for path, _, body in service.requests if path.endswith("/results")]
    assert [result["item"] for call in calls for result in call] == [result.item for result in results]
    assert max(map(len, calls)) <= 2


def test_paths_start_from_the_root_of_the_repository(checked_in: Workspace, service: Service) -> None:
    top = checked_in.root.parent / "repository"
    top.mkdir()
    (checked_in.root / ".git").rename(top / ".git")
    checked_in.root.rename(top / "sub")
    checked_in.root = top / "sub"
    commit(top)
    checked_in.patchgen("gate", CHECKS, f"--push={service.url}", PATCHGEN_TOKEN="t", CI_JOB_ID="77")
    assert service.requests[0][2]["delivery"] == "ci-77-sub"
    values = [value for path, _, value in service.requests if path.endswith("/results")]
    assert {value["project"] for value in values} == {"sub"}
    assert f"sub/proj/models/{CONFIG}" in {result["path"] for value in values for result in value["results"]}


@pytest.mark.parametrize(
    ("refusals", "message"),
    [
        ([403], "403 Forbidden: not today"),
        ([200, 422], "422 Unprocessable Entity: not today"),
        ([500, 500, 500], "500 Internal Server Error: not today"),
    ],
)
@pytest.mark.mostly_slow(1)
def test_service_that_refuses_changes_no_verdict(
    checked_in: Workspace, service: Service, refusals: list[int], message: str
) -> None:
    service.refusals = refusals
    done = checked_in.patchgen("gate", CHECKS, f"--push={service.url}", PATCHGEN_TOKEN="t")
    assert done.returncode == 0
    assert done.stdout.endswith("1 config, 3 checks: 3 ok.\n")
    assert f"warning: some or all results were not sent to {service.url}: {message}" in done.stderr
    assert "Traceback" not in done.stderr


def test_service_that_is_down_for_a_moment_gets_all(checked_in: Workspace, service: Service) -> None:
    service.refusals = [503]
    done = checked_in.patchgen("gate", CHECKS, f"--push={service.url}", PATCHGEN_TOKEN="t")
    assert "warning" not in done.stderr
    assert service.requests[-1][0].endswith("/end")


@pytest.mark.slow
def test_service_that_is_not_there_changes_no_verdict(checked_in: Workspace, service: Service) -> None:
    service.server.server_close()
    done = checked_in.patchgen("gate", CHECKS, f"--push={service.url}", PATCHGEN_TOKEN="t")
    assert done.returncode == 0
    assert "Connection refused" in done.stderr


def test_run_that_cannot_be_done_ends_at_the_service_too(checked_in: Workspace, service: Service) -> None:
    done = checked_in.patchgen("gate", "--checks=drfit", f"--push={service.url}", PATCHGEN_TOKEN="t")
    assert done.returncode == 2
    status = {"status": "infrastructure_error", "message": "there is no check 'drfit'"}
    assert service.requests[-1][::2] == ("/api/v1/runs/1-2-abc/end", status)


@pytest.mark.parametrize(
    ("push", "variables", "message"),
    [
        ("gate.acme.dev", {"PATCHGEN_TOKEN": "t"}, "error: --push takes the address of a service"),
        ("https://gate.acme.dev", {"PATCHGEN_TOKEN": ""}, "error: --push needs a token of the service"),
    ],
)
def test_slips_are_usage_errors(checked_in: Workspace, push: str, variables: dict[str, str], message: str) -> None:
    done = checked_in.patchgen("gate", CHECKS, f"--push={push}", **variables)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)


def test_commit_is_that_of_the_pull_request(checked_in: Workspace, tmp_path: Path) -> None:
    """GitHub checks out a merge, which nobody pushed; Forgejo and Gitea say the same; GitLab has variables."""
    head = {"sha": "b" * 40, "ref": "feature"}
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 5, "head": head, "base": {"ref": "main"}}}))
    github = {
        "GITHUB_REPOSITORY": "acme/other", "GITHUB_EVENT_PATH": str(event), "GITHUB_RUN_ID": "9",
        "GITHUB_RUN_ATTEMPT": "2", "GITHUB_JOB": "gate",
    }  # fmt: skip
    assert describe_commit(github, checked_in.root) == JobCommit(
        "acme/other", "b" * 40, "feature", "main", 5, "9-2-gate"
    )
    gitlab = {
        "CI_PROJECT_PATH": "acme/other", "CI_COMMIT_SHA": "c" * 40, "CI_MERGE_REQUEST_IID": "6", "CI_JOB_ID": "11",
        "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "feature", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
    }  # fmt: skip
    assert describe_commit(gitlab, checked_in.root) == JobCommit("acme/other", "c" * 40, "feature", "main", 6, "11")
