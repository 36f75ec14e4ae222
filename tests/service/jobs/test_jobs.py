"""Background work as pages see it: runs carried out, cancelled, superseded, begun by the clock, and resumed."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from service_samples import NOW, GitProject
from sqlalchemy import select

from patchgen_service.database.engine import Transactions
from patchgen_service.database.tables import Environment, Release, Repository, Result, Run, Worker
from patchgen_service.database.words import UNFINISHED
from patchgen_service.isolation.probe import Isolation
from patchgen_service.jobs.branches import poll_repository, run_schedule
from patchgen_service.jobs.context import JobContext, read_clock
from patchgen_service.jobs.releases import IndexProblem, read_releases, watch_releases
from patchgen_service.jobs.service import Chore, Jobs
from patchgen_service.records.files import list_files
from patchgen_service.records.new_runs import RunCause, begin_run
from patchgen_service.records.repositories import remove_repository
from patchgen_service.records.runs import cancel_run
from patchgen_service.schedules import is_schedule, last_time
from patchgen_service.secrets import open_secrets
from patchgen_service.settings import RunLimits, ServiceSettings
from patchgen_service.store import Store
from tests.service.isolation.test_limits import processes_with

LOOP = "import time\nwhile True: time.sleep(1)\n"


@pytest.fixture
def project(clean_project: GitProject, tmp_path: Path) -> GitProject:
    return clean_project.copy_to(tmp_path / "repository")


@pytest.fixture
def shop(tmp_path: Path, sqlite_transactions: Transactions) -> JobContext:
    """What jobs of a service work with, on the database of ``sqlite_transactions``."""
    return make_shop(tmp_path, f"sqlite:///{tmp_path / 'test.sqlite'}", sqlite_transactions)


def make_shop(tmp_path: Path, url: str, transactions: Transactions) -> JobContext:
    folder = tmp_path / "service"
    folder.mkdir(exist_ok=True)
    settings = ServiceSettings(folder, database=url, index_url="http://127.0.0.1:9", limits=RunLimits(seconds=60))
    secrets = open_secrets(folder, {}, True)
    return JobContext(settings, transactions, Store(settings.files_folder), secrets, Isolation("bubblewrap"))


def add_repository(shop: JobContext, project: GitProject, **columns: object) -> int:
    values = {"name": "acme/models", "projects": ["."], "checks": ["drift", "contract"], **columns}
    with shop.transactions() as session:
        repository = Repository(url=str(project.folder), created=NOW - timedelta(days=9), **values)
        session.add(repository)
        session.flush()
        return repository.id


def begin(shop: JobContext, repository: int, sha: str, kind: str = "webhook") -> str:
    cause = RunCause(kind, f"{kind}-{sha}", "main", sha)  # type: ignore[arg-type]
    with shop.transactions() as session:
        return begin_run(session, session.get_one(Repository, repository), cause, shop.clock()).id


def read_run(shop: JobContext, run: str) -> Run:
    with shop.transactions() as session:
        return session.get_one(Run, run)


def wait_until(is_so: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def wait_for(shop: JobContext, run: str) -> Run:
    wait_until(lambda: read_run(shop, run).status not in UNFINISHED)
    return read_run(shop, run)


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Iterator[Callable[..., Jobs]]:
    """Start the jobs , which are stopped with the test."""
    started: list[Jobs] = []

    def start_jobs(shop: JobContext, **more: object) -> Jobs:
        jobs = Jobs(shop, **more)  # type: ignore[arg-type]
        jobs.start()
        started.append(jobs)
        return jobs

    yield start_jobs
    for jobs in started:
        if not jobs.is_stopped:
            jobs.stop()


@pytest.mark.mostly_slow(1)
def test_run_is_carried_out_and_remembered(
    tmp_path: Path, project: GitProject, database_url: str, transactions: Transactions, start: Callable[..., Jobs]
) -> None:
    """Its results, its environment, its regenerated files and what it is compared with; on each kind of database."""
    ended: list[str] = []
    shop = dataclasses.replace(make_shop(tmp_path, database_url, transactions), tell_status=ended.append)
    repository = add_repository(shop, project)
    jobs = start(shop)
    first = begin(shop, repository, project.commit("More"))
    jobs.begin(first)
    assert (wait_for(shop, first).status, wait_for(shop, first).expected) == ("passed", 3)
    project.write_config("toy", "return x * 5")
    second = begin(shop, repository, project.commit("Forget to regenerate"))  # which the clock finds by itself
    run = wait_for(shop, second)
    assert (run.status, run.baseline_id, run.worker) == ("drifted", first, "service")
    with shop.transactions() as session:
        rows = session.scalars(select(Result).filter_by(run_id=second))
        results = {(row.path.rpartition("/")[2], row.item): (row.status, row.change) for row in rows}
        config = "toy_patch_gen_config.py"
        assert results == {
            (config, "drift"): ("drifted", "new"),
            (config, "contract"): ("clean", ""),
            ("pyproject.toml", "drift"): ("clean", ""),
        }
        (file,) = list_files(session, second, "generated")
        assert "x * 5" in shop.store.get(file.digest).decode()
        assert session.get_one(Environment, run.environment_id).packages["pytest-patchgen"]
        assert session.get_one(Worker, "service").isolation == "bubblewrap"
    wait_until(lambda: ended[-1:] == [second] and set(ended[:-1]) >= {first})


def test_cancelled_and_superseded_runs_end_with_their_processes(
    project: GitProject, shop: JobContext, start: Callable[..., Jobs]
) -> None:
    project.write("models/loop/loop_patch_gen_config.py", LOOP)
    repository = add_repository(shop, project)
    jobs = start(shop, carries_out=2)
    first = begin(shop, repository, project.commit("Loop"))
    jobs.begin(first)
    wait_until(lambda: bool(processes_with(f"work/{first}")))
    second = begin(shop, repository, project.commit("Loop again"))
    jobs.begin(second)
    wait_until(lambda: bool(processes_with(f"work/{second}")) and not processes_with(f"work/{first}"), 20)
    assert read_run(shop, first).status == "superseded"
    with shop.transactions() as session:
        cancel_run(session, second, "ada", shop.clock())
    jobs.cancel(second)
    wait_until(lambda: not processes_with(f"work/{second}"), 20)
    assert (read_run(shop, second).status, read_run(shop, second).message) == ("cancelled", "cancelled by ada")


@pytest.mark.slow
def test_the_runs_of_a_removed_repository_end_and_nothing_of_it_is_left(
    project: GitProject, shop: JobContext, start: Callable[..., Jobs], caplog: pytest.LogCaptureFixture
) -> None:
    repository, jobs = add_repository(shop, project), start(shop)
    whole = begin(shop, repository, project.commit("More"))
    jobs.begin(whole)
    assert wait_for(shop, whole).status == "passed"
    project.write("models/loop/loop_patch_gen_config.py", LOOP)
    looping = begin(shop, repository, project.commit("Loop"))
    jobs.begin(looping)
    wait_until(lambda: bool(processes_with(f"work/{looping}")))
    assert (shop.settings.mirrors_folder / str(repository)).is_dir()
    assert list(shop.store.digests())
    with shop.transactions() as session:
        runs = remove_repository(session, session.get_one(Repository, repository), "ada", shop.clock())
    assert runs == [looping]
    jobs.forget_runs(runs)
    wait_until(lambda: not processes_with(f"work/{looping}"), 20)
    wait_until(lambda: not list(shop.store.digests()) and not list(shop.settings.mirrors_folder.iterdir()), 20)
    jobs.stop()
    with shop.transactions() as session:
        assert session.scalars(select(Run)).all() == []
    assert [record for record in caplog.records if record.exc_info] == []


def test_run_that_the_end_of_the_service_interrupts_is_resumed(
    project: GitProject, shop: JobContext, start: Callable[..., Jobs]
) -> None:
    project.write("models/loop/loop_patch_gen_config.py", "import time\ntime.sleep(3)\n" + LOOP.partition("while")[0])
    repository = add_repository(shop, project)
    jobs = start(shop)
    run = begin(shop, repository, project.commit("Wait"))
    jobs.begin(run)
    wait_until(lambda: bool(processes_with(f"work/{run}")))
    jobs.stop()
    assert read_run(shop, run).status == "running"
    assert not processes_with(f"work/{run}")
    again = dataclasses.replace(shop, stopping=threading.Event())
    start(again)
    assert wait_for(shop, run).ended is not None
    assert read_run(shop, run).status not in ("cancelled", "infrastructure_error")


@pytest.mark.slow
def test_run_whose_worker_is_gone_ends_with_the_reason(
    project: GitProject, shop: JobContext, start: Callable[..., Jobs]
) -> None:
    run = begin(shop, add_repository(shop, project), project.commit("More"))
    with shop.transactions() as session:
        row = session.get_one(Run, run)
        row.status, row.worker, row.heard = "running", "elsewhere", shop.clock() - timedelta(hours=1)
    start(shop)
    ended = wait_for(shop, run)
    assert ended.status == "infrastructure_error"
    assert ended.message.startswith("The worker 'elsewhere' has been silent for more than 10 minutes.")


def test_new_commits_are_found_by_polling(project: GitProject, shop: JobContext) -> None:
    repository = add_repository(shop, project, branches=["main", "release/*"], poll_seconds=1)
    (first,) = poll_repository(shop, repository)
    assert poll_repository(shop, repository) == []
    project.git("branch", "release/5")
    project.git("branch", "somebody/tries")
    sha = project.commit("More")
    begun = poll_repository(shop, repository)
    runs = {read_run(shop, run).branch: read_run(shop, run) for run in begun}
    assert set(runs) == {"main", "release/5"}
    assert (runs["main"].sha, read_run(shop, first).status) == (sha, "superseded")
    project.git("reset", "--quiet", "--hard", "HEAD~1")
    (forced,) = poll_repository(shop, repository)
    assert read_run(shop, forced).sha == project.git("rev-parse", "HEAD")


def test_schedule_begins_one_run_for_each_of_its_times(project: GitProject, shop: JobContext) -> None:
    repository = add_repository(shop, project, schedule="30 3 * * 1-5")
    moment = datetime(2026, 11, 23, 3, 29, tzinfo=timezone.utc)

    def run_at(*times: datetime) -> list[bool]:
        clocks = [dataclasses.replace(shop, clock=lambda now=now: now) for now in times]  # type: ignore[misc]
        return [run_schedule(clock, repository) is not None for clock in clocks]

    minute = timedelta(minutes=1)
    assert run_at(moment + minute, moment + minute, moment + 9 * minute) == [True, False, False]
    assert run_at(moment - minute) == [False], "the clock jumped back"
    assert run_at(moment + timedelta(days=2, hours=1)) == [True], "the service was down at the time itself"
    assert (is_schedule("@daily"), is_schedule("61 * * * *"), is_schedule("*/5 * * * *")) == (False, False, True)
    assert last_time("0 0 1 1 *", moment) == datetime(2026, 1, 1, tzinfo=timezone.utc)


class Index:
    """A package index that serves what it is given."""

    def __init__(self) -> None:
        self.status, self.content = 200, b""
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                is_known = self.path == "/pypi/transformers/json"
                self.send_response(index.status if is_known else 404)
                self.end_headers()
                self.wfile.write(index.content)

            def log_message(self, *_: object) -> None:
                pass

        self.uploaded = f"{read_clock():%Y-%m-%dT%H:%M:%S.5Z}"
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def serve(self, **releases: bool) -> None:
        """Serve releases that were uploaded just now, ``v5_1_0=False`` for one that was not withdrawn."""
        files = {
            name[1:].replace("_", "."): [{"upload_time_iso_8601": self.uploaded, "yanked": is_yanked}]
            for name, is_yanked in releases.items()
        }
        self.content = json.dumps({"releases": {**files, "no-version": files[next(iter(files))], "4.0": []}}).encode()

    def serve_old(self, **releases: bool) -> None:
        """Serve releases besides that are years old, as an index does that did not know them before."""
        known, self.uploaded = json.loads(self.content)["releases"], "2020-01-01T10:00:00.5Z"
        self.serve(**releases)
        self.content = json.dumps({"releases": {**json.loads(self.content)["releases"], **known}}).encode()


@pytest.fixture
def index() -> Iterator[Index]:
    index = Index()
    yield index
    index.server.shutdown()
    index.server.server_close()


def test_release_that_is_new_on_the_index_is_run_with(project: GitProject, shop: JobContext, index: Index) -> None:
    shop = dataclasses.replace(shop, settings=dataclasses.replace(shop.settings, index_url=index.url))
    repository = add_repository(shop, project)
    index.serve(v5_1_0=False, v5_2_0=False)
    assert watch_releases(shop) == [], "what was there before is not new"
    index.serve(v5_1_0=True, v5_2_0=False, v5_3_0rc1=False, v5_2_1=True)
    (run,) = watch_releases(shop)
    assert (read_run(shop, run).transformers, read_run(shop, run).branch) == ("5.3.0rc1", "main")
    assert watch_releases(shop) == []
    index.serve(v5_1_0=True, v5_2_0=False, v5_3_0rc1=False, v5_2_1=True, v5_3_0=False)
    index.serve_old(v4_57_0=False)
    set_url(shop, repository, str(project.folder / "nowhere"))
    assert watch_releases(shop) == [], "the repository cannot be reached now"
    set_url(shop, repository, str(project.folder))
    (later,) = watch_releases(shop)
    assert read_run(shop, later).transformers == "5.3.0"
    with shop.transactions() as session:
        releases = {row.version: (row.is_candidate, row.is_yanked) for row in session.scalars(select(Release))}
    assert releases == {
        "5.1.0": (False, True),
        "5.2.0": (False, False),
        "5.2.1": (False, True),
        "5.3.0rc1": (True, False),
        "5.3.0": (False, False),
        "4.57.0": (False, False),
    }


def test_clone_of_transformers_gets_the_tags_of_what_is_new(
    shop: JobContext, index: Index, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    upstream, clone = GitProject(tmp_path / "upstream"), tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", upstream.folder, clone], check=True)
    settings = dataclasses.replace(shop.settings, index_url=index.url, history=str(clone))
    shop = dataclasses.replace(shop, settings=settings)
    add_repository(shop, upstream)
    index.serve(v5_1_0=False)
    watch_releases(shop)
    upstream.commit("Break something (#7)")
    upstream.git("tag", "v5.2.0rc1")
    index.serve(v5_1_0=False, v5_2_0rc1=False)
    assert len(watch_releases(shop)) == 1
    assert subprocess.run(["git", "tag"], cwd=clone, check=True, capture_output=True).stdout == b"v5.2.0rc1\n"
    shutil.rmtree(upstream.folder / ".git/objects")
    index.serve(v5_1_0=False, v5_2_0rc1=False, v5_2_0rc2=False)
    watch_releases(shop)
    assert f"the clone {clone} of transformers gets no new tags" in caplog.text


def set_url(shop: JobContext, repository: int, url: str) -> None:
    with shop.transactions() as session:
        session.get_one(Repository, repository).url = url


@pytest.mark.parametrize(
    ("status", "content"), [(500, b""), (200, b"<html>"), (200, b'{"releases": [1]}'), (404, b"")]
)
@pytest.mark.mostly_slow(1)
def test_index_that_gives_no_sensible_answer(index: Index, status: int, content: bytes) -> None:
    index.status, index.content = status, content
    with pytest.raises(IndexProblem, match="/pypi/transformers/json"):
        read_releases(index.url)


@pytest.mark.slow
def test_chores_of_other_rooms_are_done_in_turns(shop: JobContext, start: Callable[..., Jobs]) -> None:
    done: list[str] = []
    approved: list[int] = []

    def fail() -> None:
        done.append("failed")
        raise ValueError("not now")

    chores = {
        "often": Chore(timedelta(seconds=1), lambda: done.append("often")),
        "failing": Chore(timedelta(seconds=1), fail),
        "seldom": Chore(timedelta(days=1), lambda: done.append("seldom")),
    }
    jobs = start(shop, chores=chores, approve=approved.append)
    jobs.approve(7)
    jobs.approve(7)
    wait_until(lambda: done.count("often") >= 2 and done.count("failed") >= 2)
    assert done.count("seldom") == 1
    wait_until(lambda: set(approved) == {7})
