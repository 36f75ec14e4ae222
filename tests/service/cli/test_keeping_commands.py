"""``patchgen serve backup``, ``restore`` and ``migrate``, as somebody types them."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest
from service_samples import GitProject
from service_team import Team

from patchgen_core.cli.main import main
from patchgen_service.database.engine import make_transactions, open_database
from patchgen_service.database.revisions import head_revision
from patchgen_service.database.tables import Repository, Run, Worker
from patchgen_service.records.new_runs import RunCause, begin_run
from patchgen_service.records.results import read_result
from patchgen_service.records.runs import start_run
from patchgen_service.secrets import KEY_NAME
from patchgen_service.store import Store
from tools.service_process import ServiceProcess

Command = Callable[..., str]


@pytest.fixture
def home(tmp_path: Path, command: Command) -> Path:
    """The folder of a service with a repository and a drifted run of it."""
    folder = tmp_path / "service"
    folder.mkdir()
    command(folder, "add-repository", "acme/models", "https://git.example/acme/models.git")
    team = team_of(folder)
    run = team.run("a" * 40, {"drift": "drifted"})
    assert read_result(team.store, team.results(run)["drift"]).status == "drifted"
    return folder


def team_of(folder: Path, url: str = "") -> Team:
    url = url or f"sqlite:///{folder / 'service.sqlite'}"
    return Team(make_transactions(open_database(url)), Store(folder / "files"))


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """What ``patchgen serve --data FOLDER ...`` prints: what it did, or why not."""

    def run(folder: Path, *arguments: str) -> str:
        code = main(["serve", "--data", str(folder), *arguments])
        printed = capsys.readouterr()
        assert (code, bool(printed.err)) in ((0, False), (2, True)), printed
        return " ".join((printed.out or printed.err).split())

    return run


def test_a_service_comes_back_from_its_backup(home: Path, tmp_path: Path, command: Command) -> None:
    """With its key, which has to be kept beside the backup: both commands say so."""
    backup, other = tmp_path / "monday.backup", tmp_path / "other"
    text = command(home, "backup", str(backup))
    assert f"1 file, in tables of revision {head_revision()}" in text
    assert f"Keep {home / KEY_NAME} with the backup, but in another place: the backup does not contain it." in text
    text = command(other, "restore", str(backup))
    assert "Start it with the key of the service that was backed up" in text
    (other / KEY_NAME).unlink(missing_ok=True)
    shutil.copy(home / KEY_NAME, other / KEY_NAME)
    team = team_of(other)
    with team.transactions() as session:
        (run,) = session.query(Run).all()
    assert (run.status, read_result(team.store, team.results(run)["drift"]).status) == ("drifted", "drifted")


def test_where_there_is_no_service_there_is_no_backup(tmp_path: Path, command: Command) -> None:
    """An empty one would look like one, and be missed when it is needed."""
    assert "there is no service to back up" in command(tmp_path / "slip", "backup", str(tmp_path / "a.backup"))
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_restored_over_something(home: Path, tmp_path: Path, command: Command) -> None:
    backup = tmp_path / "monday.backup"
    command(home, "backup", str(backup))
    assert "is not empty" in command(home, "restore", str(backup))
    other = tmp_path / "other"
    Store(other / "files").put(b"somebody's")
    assert "there are stored files already" in command(other, "restore", str(backup))
    assert len(list(Store(other / "files").digests())) == 1


@pytest.mark.slow
def test_a_damaged_backup_leaves_an_empty_folder_that_takes_the_next(
    home: Path, tmp_path: Path, command: Command
) -> None:
    backup, damaged, other = tmp_path / "monday.backup", tmp_path / "damaged.backup", tmp_path / "other"
    command(home, "backup", str(backup))
    with tarfile.open(backup) as whole, tarfile.open(damaged, "w:gz") as archive:
        for member in whole:
            archive.addfile(member, whole.extractfile(member))
        archive.addfile(tarfile.TarInfo(f"files/aa/{'a' * 64}"))
    assert "the file aaaaaaaaaaaa in it is damaged" in command(other, "restore", str(damaged))
    assert list(Store(other / "files").digests()) == []
    with tarfile.open(backup) as whole, tarfile.open(damaged, "w:gz") as archive:
        for member in whole:
            content = whole.extractfile(member)
            assert content is not None
            data = content.read()
            archive.addfile(
                member, io.BytesIO(data[:200] + bytes(len(data) - 200) if "sqlite" in member.name else data)
            )
    assert "the backup cannot be restored: " in command(other, "restore", str(damaged))
    assert list(Store(other / "files").digests()) == []
    command(other, "restore", str(backup))


@pytest.mark.slow
def test_a_backup_for_which_there_is_no_room_says_so_and_shows_nothing(home: Path, tmp_path: Path) -> None:
    disk = tmp_path / "small"
    disk.mkdir()
    box = ["bwrap", "--dev-bind", "/", "/", "--size", "100000", "--tmpfs", str(disk)]
    command = [sys.executable, "-m", "patchgen_core", "serve", "--data", str(home), "backup", str(disk / "file")]
    done = subprocess.run([*box, *command], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.rstrip().endswith("the backup cannot be written: database or disk is full")
    assert "INSERT" not in done.stderr


@pytest.mark.parametrize("arguments", [["migrate"], ["backup", "monday.backup"]])
def test_a_database_that_cannot_be_reached_is_named_in_a_sentence(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setenv("PATCHGEN_DATABASE", f"postgresql://nobody@/none?host={tmp_path}")
    text = command(tmp_path / "service", *arguments)
    assert text.startswith("error: the database cannot be used: connection")


def test_a_database_is_brought_to_this_version(tmp_path: Path, command: Command) -> None:
    folder = tmp_path / "service"
    assert command(folder, "migrate") == "the database is that of this version"
    assert command(folder, "migrate") == "the database is that of this version"
    assert team_of(folder).run


def test_a_service_that_runs_is_not_copied(home: Path, postgresql_url: str, command: Command) -> None:
    """What it does meanwhile would be lost without a word."""
    team = team_of(home)
    with team.transactions() as session:
        now = datetime.now(timezone.utc)
        session.add(Worker(name="service", host="here", process=1, started=now, seen=now))
    assert "a running service cannot be copied: 'service' works on this database" in command(
        home, "migrate", "--to", postgresql_url
    )


@pytest.mark.slow
def test_what_was_unfinished_goes_on_after_the_move_to_postgresql(
    tmp_path: Path, git_project: GitProject, postgresql_url: str, command: Command
) -> None:
    """A run that waited, and one that the old service was killed over; the results of others are there as well."""
    folder = tmp_path / "service"
    command(folder, "add-repository", "acme/models", str(git_project.folder))
    team = team_of(folder)
    over = team.run("a" * 40, {"drift": "drifted"}, branch="other")
    sha = git_project.commit("More")
    with team.transactions() as session:
        repository = session.query(Repository).one()
        repository.checks = ["drift", "contract"]
        causes = [RunCause("manual", f"button-{number}", "main", sha) for number in range(2)]
        waiting, killed = (begin_run(session, repository, cause, datetime.now(timezone.utc)).id for cause in causes)
        start_run(session, killed, "service", datetime.now(timezone.utc))
    assert "copied" in command(folder, "migrate", "--to", postgresql_url)
    moved = team_of(folder, postgresql_url)
    with ServiceProcess(folder, {"PATCHGEN_DATABASE": postgresql_url}):
        wait_until(lambda: all(moved.read(run).status == "passed" for run in runs_of(moved, waiting, killed)))
    assert read_result(moved.store, moved.results(over)["drift"]).status == "drifted"
    assert "is not empty" in command(folder, "migrate", "--to", postgresql_url)


def runs_of(team: Team, *ids: str) -> list[Run]:
    with team.transactions() as session:
        return [session.get_one(Run, number) for number in ids]


def wait_until(is_so: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)
