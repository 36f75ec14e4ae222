"""``patchgen serve worker``: runs of a service elsewhere, with which it shares a database and no folder."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from service_samples import GitProject
from service_team import Team

from patchgen_core.cli.main import main
from patchgen_service.database.engine import make_transactions, open_database
from patchgen_service.database.tables import Run, Worker
from patchgen_service.database.words import UNFINISHED
from patchgen_service.records.files import list_files
from patchgen_service.records.new_runs import RunCause, begin_run
from patchgen_service.records.results import read_result
from patchgen_service.store import Store
from tests.service.git.git_server import GitServer
from tools.service_process import ServiceProcess

TOKEN = "sesame-open-up"
REPOSITORY = """
workers = 0

[[repository]]
name = "acme/models"
url = "{url}/acme.git"
checks = ["drift", "contract"]
forge_token = "ACME_TOKEN"
"""


@pytest.fixture
def server(tmp_path: Path, git_project: GitProject) -> Iterator[GitServer]:
    """A forge that has the project behind a password: nothing of it can be had by its folder."""
    subprocess.run(["git", "clone", "-q", "--bare", git_project.folder, tmp_path / "forge" / "acme.git"], check=True)
    subprocess.run(["git", "-C", tmp_path / "forge/acme.git", "config", "uploadpack.allowFilter", "true"], check=True)
    server = GitServer(tmp_path / "forge", TOKEN)
    yield server
    server.close()


@pytest.fixture
def variables(postgresql_url: str) -> dict[str, str]:
    """What the environment of the service and of its workers has."""
    return {
        "PATCHGEN_DATABASE": postgresql_url,
        "PATCHGEN_SECRET_KEY": Fernet.generate_key().decode(),
        "PATCHGEN_INDEX_URL": "http://127.0.0.1:9",
        "ACME_TOKEN": TOKEN,
    }


def make_home(tmp_path: Path, server: GitServer) -> Path:
    """The folder of a service that carries out nothing itself."""
    folder = tmp_path / "service"
    folder.mkdir()
    (folder / "service.toml").write_text(REPOSITORY.format(url=server.url))
    return folder


def push(project: GitProject, tmp_path: Path, message: str) -> str:
    """Commit, and push that to the forge."""
    sha = project.commit(message)
    project.git("push", "--quiet", str(tmp_path / "forge" / "acme.git"), "main")
    return sha


def begin(team: Team, sha: str) -> str:
    with team.transactions() as session:
        cause = RunCause("manual", f"button-{sha}", "main", sha)
        return begin_run(session, team.repository(session), cause, datetime.now(timezone.utc)).id


def wait_for(team: Team, run: str) -> Run:
    deadline = time.monotonic() + 90
    while True:
        with team.transactions() as session:
            row = session.get_one(Run, run)
        if row.status not in UNFINISHED:
            return row
        assert time.monotonic() < deadline, f"run {run} is {row.status}"
        time.sleep(0.1)


@pytest.mark.slow
def test_a_worker_shares_no_folder_with_its_service(
    tmp_path: Path, git_project: GitProject, server: GitServer, variables: dict[str, str]
) -> None:
    """It has the code from the forge, and the service has its results and files; the run's token ends with it."""
    home, elsewhere = make_home(tmp_path, server), tmp_path / "elsewhere"
    team = Team(make_transactions(open_database(variables["PATCHGEN_DATABASE"])), Store(home / "files"))
    git_project.write_config("toy", "return x * 5")
    sha = push(git_project, tmp_path, "Forget to regenerate")
    with ServiceProcess(home, variables) as service:
        run = begin(team, sha)
        with ServiceProcess(elsewhere, variables, "worker", "--name", "far", "--service", service.url):
            row = wait_for(team, run)
            assert (row.status, row.worker, row.message) == ("drifted", "far", "1 drifted of 3 results")
            assert row.token == ""
            with team.transactions() as session:
                assert session.get_one(Worker, "far").isolation == "bubblewrap"
                (file,) = list_files(session, run, "generated")
                assert "x * 5" in team.store.get(file.digest).decode()
                assert row.environment_id is not None
            assert read_result(team.store, team.results(row)["drift"]).status in ("clean", "drifted")
        with team.transactions() as session:
            assert session.get(Worker, "far") is None
    assert not (elsewhere / "files").exists()
    assert not (home / "mirrors").exists()
    assert not list((elsewhere / "work").glob("*"))


@pytest.mark.slow
def test_a_worker_waits_for_a_service_that_is_down(
    tmp_path: Path, git_project: GitProject, server: GitServer, variables: dict[str, str]
) -> None:
    home, elsewhere = make_home(tmp_path, server), tmp_path / "elsewhere"
    team = Team(make_transactions(open_database(variables["PATCHGEN_DATABASE"])), Store(home / "files"))
    sha = push(git_project, tmp_path, "More")
    with ServiceProcess(home, variables) as service:
        url, port = service.url, service.url.rpartition(":")[2]
    run = begin(team, sha)
    with ServiceProcess(elsewhere, variables, "worker", "--name", "far", "--service", url):
        deadline = time.monotonic() + 60
        while not has_begun(team, run):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        time.sleep(1)
        with ServiceProcess(home, variables, "--port", port):
            assert wait_for(team, run).status == "passed"


def has_begun(team: Team, run: str) -> bool:
    with team.transactions() as session:
        return session.get_one(Run, run).status == "running"


@pytest.mark.parametrize(
    ("lacks", "message"),
    [
        ("PATCHGEN_DATABASE", "workers on other machines need PostgreSQL"),
        ("PATCHGEN_SECRET_KEY", "a worker needs the key of its service"),
        ("PATCHGEN_PUBLIC_URL", "a worker must know where its service is"),
    ],
)
def test_a_worker_says_what_it_lacks(
    tmp_path: Path,
    variables: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lacks: str,
    message: str,
) -> None:
    for name, value in {**variables, "PATCHGEN_PUBLIC_URL": "https://patchgen.example.com"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(lacks)
    work: Callable[[], int] = lambda: main(["serve", "--data", str(tmp_path / "elsewhere"), "worker"])  # noqa: E731
    assert work() == 2
    assert message in capsys.readouterr().err
