"""What repositories, machines and clocks do to a service: each has an end that its page tells, and loses nothing."""

from __future__ import annotations

import dataclasses
import math
import shutil
import time
from datetime import timedelta
from pathlib import Path

import pytest
from service_samples import NOW, GitProject
from service_team import Team
from sqlalchemy import select

from patchgen_service.database.engine import Transactions
from patchgen_service.database.tables import Repository, Result, Run, Worker
from patchgen_service.isolation.probe import Isolation
from patchgen_service.jobs.branches import poll_repository
from patchgen_service.jobs.context import JobContext, SteadyClock
from patchgen_service.jobs.run_job import RunJob
from patchgen_service.jobs.service import Jobs
from patchgen_service.records.files import list_files
from patchgen_service.records.new_runs import RunCause, begin_run
from patchgen_service.records.runs import start_run
from patchgen_service.secrets import open_secrets
from patchgen_service.settings import RunLimits, ServiceSettings
from patchgen_service.store import Store
from tests.service.web.web_visitors import Visitor, make_site, words_of

LIMITS = RunLimits(seconds=30, memory_mib=1024, processes=64, disk_mib=16, install_seconds=60)


@pytest.fixture
def shop(tmp_path: Path, sqlite_transactions: Transactions, store: Store, git_project: GitProject) -> JobContext:
    """A service with a public repository of the project."""
    settings = ServiceSettings(
        tmp_path / "service",
        database=f"sqlite:///{tmp_path / 'test.sqlite'}",
        index_url="http://127.0.0.1:9",
        limits=LIMITS,
    )
    secrets = open_secrets(tmp_path, {}, True)
    with sqlite_transactions() as session:
        columns = {"projects": ["."], "checks": ["drift", "contract"], "is_public": True}
        session.add(Repository(name="acme/models", url=str(git_project.folder), created=NOW, **columns))
    return JobContext(settings, sqlite_transactions, store, secrets, Isolation("bubblewrap"), clock=lambda: NOW)


@pytest.fixture
def team(shop: JobContext) -> Team:
    return Team(shop.transactions, shop.store)


@pytest.fixture
def visitor(shop: JobContext, tmp_path: Path) -> Visitor:
    return Visitor(make_site(shop.transactions, shop.store, tmp_path))


def carry_out(shop: JobContext, team: Team, sha: str, **columns: object) -> Run:
    """A run of a commit, to its end."""
    with shop.transactions() as session:
        repository = team.repository(session)
        for name, value in columns.items():
            setattr(repository, name, value)
        run = begin_run(session, repository, RunCause("manual", f"button-{sha}-{columns}", "main", sha), NOW)
    RunJob(shop)(run.id)
    return team.read(run)


def read_page(visitor: Visitor, run: Run) -> str:
    return words_of(visitor.get(f"/runs/{run.id}").text)


@pytest.mark.slow
def test_a_commit_that_a_forced_branch_took_along_says_so(
    shop: JobContext, team: Team, visitor: Visitor, git_project: GitProject
) -> None:
    gone = git_project.commit("This will be rewritten")
    git_project.git("reset", "--quiet", "--hard", "HEAD~1")
    git_project.git("reflog", "expire", "--expire=now", "--all")
    git_project.git("gc", "--quiet", "--prune=now")
    run = carry_out(shop, team, gone)
    assert run.status == "infrastructure_error"
    assert "The commit is gone: its branch was forced or deleted." in read_page(visitor, run)
    assert carry_out(shop, team, git_project.git("rev-parse", "HEAD")).status == "passed"


@pytest.mark.slow
def test_a_forced_branch_is_run_where_it_is_now_and_its_earlier_runs_stay(
    shop: JobContext, team: Team, visitor: Visitor, git_project: GitProject
) -> None:
    git_project.commit("First")
    (first,) = poll_repository(shop, 1)
    RunJob(shop)(first)
    git_project.git("commit", "--quiet", "--amend", "--allow-empty", "--message", "First, rewritten")
    (second,) = poll_repository(shop, 1)
    RunJob(shop)(second)
    with shop.transactions() as session:
        runs = [session.get_one(Run, run) for run in (first, second)]
    assert [run.status for run in runs] == ["passed", "passed"]
    assert [len(team.results(run)) for run in runs] == [2, 2]
    assert all("passed" in read_page(visitor, run) for run in runs)


@pytest.mark.slow
def test_a_deleted_branch_keeps_its_runs_and_ends_what_waits(
    shop: JobContext, team: Team, visitor: Visitor, git_project: GitProject
) -> None:
    git_project.git("checkout", "--quiet", "-b", "topic")
    sha = git_project.commit("On a branch")
    run = carry_out(shop, team, sha)
    assert run.status == "passed"
    git_project.git("checkout", "--quiet", "main")
    git_project.git("branch", "-D", "topic")
    assert poll_repository(shop, 1) != [], "the other branches are watched on"
    again = carry_out(shop, team, sha, constraints="")
    assert again.status == "passed", "the service has the commit itself"
    assert "passed" in read_page(visitor, run)


@pytest.mark.slow
def test_a_repository_that_is_gone_says_so_and_keeps_its_results(
    shop: JobContext, team: Team, visitor: Visitor, git_project: GitProject
) -> None:
    sha = git_project.git("rev-parse", "HEAD")
    before = carry_out(shop, team, sha)
    shutil.rmtree(git_project.folder)
    run = carry_out(shop, team, "b" * 40)
    assert run.status == "infrastructure_error"
    assert "There is no git repository at" in read_page(visitor, run)
    assert len(team.results(before)) == 2
    assert "passed" in read_page(visitor, before)


@pytest.mark.slow
def test_a_repository_that_stops_installing_says_why_with_its_log(
    shop: JobContext, team: Team, visitor: Visitor, git_project: GitProject
) -> None:
    assert carry_out(shop, team, git_project.git("rev-parse", "HEAD")).status == "passed"
    limits = dataclasses.replace(LIMITS, disk_mib=512)
    shop = dataclasses.replace(shop, settings=dataclasses.replace(shop.settings, limits=limits))
    git_project.write("constraints.txt", "no-such-package==1\n")
    broken = carry_out(
        shop, team, git_project.commit("Pin"), constraints="constraints.txt", extras=["no-such-package"]
    )
    assert broken.status == "infrastructure_error"
    assert "The environment could not be installed: ERROR:" in read_page(visitor, broken)
    with shop.transactions() as session:
        assert [file.name for file in list_files(session, broken.id, "log")] == ["install.log"]
    assert carry_out(shop, team, git_project.commit("Undo"), constraints="", extras=[]).status == "passed"


HOSTILE = {
    "loops": ("while True: pass", "timed_out", "It took longer than "),
    "fills the disk": (
        "for n in range(99): open(f'/tmp/{n}', 'wb').write(bytes(1 << 20))",
        "broken",
        "No space left on device",
    ),
    "forks without end": ("import os\nwhile True: os.fork()", "", ""),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.slow
def test_a_config_that_does_harm_ends_its_run_and_no_other(
    shop: JobContext, team: Team, visitor: Visitor, git_project: GitProject, name: str
) -> None:
    """What the project before it came to stays, and the next run is none the worse."""
    code, status, message = HOSTILE[name]
    start = time.monotonic()
    assert carry_out(shop, team, git_project.git("rev-parse", "HEAD")).status == "passed"
    seconds = math.ceil(4 * (time.monotonic() - start)) if status == "timed_out" else LIMITS.seconds
    limits = dataclasses.replace(LIMITS, seconds=seconds)
    limited = dataclasses.replace(shop, settings=dataclasses.replace(shop.settings, limits=limits))
    git_project.write("bad/pyproject.toml", '[tool.patchgen]\nsearch_root = "models"\npackage_prefix = "models"\n')
    git_project.write("bad/models/bad/bad_patch_gen_config.py", code)
    run = carry_out(limited, team, git_project.commit("Harm"), projects=[".", "bad"])
    assert run.ended is not None
    if status:
        assert run.status == status
    else:
        assert run.status in ("broken", "infrastructure_error", "timed_out")
    page = read_page(visitor, run)
    assert message in page
    with shop.transactions() as session:
        paths = session.scalars(select(Result.path).where(Result.run_id == run.id)).all()
    assert "models/toy/toy_patch_gen_config.py" in paths
    shutil.rmtree(git_project.folder / "bad")
    assert carry_out(shop, team, git_project.commit("Undo"), projects=["."]).status == "passed"


def test_a_clock_that_jumps_ends_no_run_that_goes_on_elsewhere(shop: JobContext, team: Team) -> None:
    """The worker was heard of just before; after a jump of an hour it has time to be heard of again."""
    times = [NOW]
    shop = dataclasses.replace(shop, clock=lambda: times[-1])
    with shop.transactions() as session:
        run = begin_run(session, team.repository(session), RunCause("manual", "button", "main", "a" * 40), NOW)
        start_run(session, run.id, "far", NOW)
        session.add(Worker(name="far", started=NOW, seen=NOW))
    jobs = Jobs(shop, carries_out=0)
    jobs.start()
    try:
        jobs.tick()
        times.append(NOW + timedelta(hours=1))
        jobs.tick()
        assert team.read(run).status == "running"
        times.append(NOW - timedelta(hours=1))
        jobs.tick()
        assert team.read(run).status == "running"
    finally:
        jobs.stop()


def test_a_clock_is_steady_again_after_some_minutes() -> None:
    clock, second = SteadyClock(), timedelta(seconds=1)
    assert clock.was_steady(NOW, 0.0)
    assert clock.was_steady(NOW + second, 1.0)
    assert not clock.was_steady(NOW + timedelta(hours=1), 2.0)
    assert not clock.was_steady(NOW + timedelta(hours=1) + 200 * second, 202.0)
    assert clock.was_steady(NOW + timedelta(hours=1) + 400 * second, 402.0)
    assert not clock.was_steady(NOW, 403.0)
