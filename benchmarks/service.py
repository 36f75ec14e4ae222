"""What the service's memory costs: results handed in, and the queries of its pages over 100,000 of them.

Runs of 30 configs with 12 items each are handed in as a gate hands them in, a config at a time, until there are as
many results as wanted; an item in 60 is red. Then each query of a page is timed, and each page as a browser gets it.
Exit code 1 when a query takes longer than 100 ms, or a page longer than 200. For SQLite that is processor time.

    python benchmarks/service.py [--results 100000] [--postgresql] [--rounds 20]
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from sqlalchemy import func, select
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from patchgen_core.checks.result import CheckResult, Status, pack
from patchgen_core.errors import Problem
from patchgen_service.cli.serving import open_site
from patchgen_service.database.engine import Transactions, make_readings, make_transactions, open_database
from patchgen_service.database.migrating import upgrade_database
from patchgen_service.database.tables import Repository, Result, Run
from patchgen_service.records.baselines import choose_baseline
from patchgen_service.records.machines import EnvironmentFacts, set_environment
from patchgen_service.records.new_runs import RunCause, begin_run
from patchgen_service.records.results import add_results
from patchgen_service.records.retention import remove_old
from patchgen_service.records.runs import end_run, start_run
from patchgen_service.settings import Retention, ServiceSettings
from patchgen_service.store import Store
from patchgen_service.views.audit import read_audit
from patchgen_service.views.branch import ConfigKey, read_grid
from patchgen_service.views.config import SHARE, read_config
from patchgen_service.views.lines import read_lines
from patchgen_service.views.overview import read_overview
from patchgen_service.views.releases import read_matrix, read_releases
from patchgen_service.views.run import read_run
from patchgen_service.views.work import read_work
from patchgen_service.web.app import build_app
from tools.postgresql import PostgresServer

CONFIGS, ITEMS = 30, ("drift", "import", "contract", "converter", "plan", *(f"parity[{n}]" for n in range(7)))
BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
GOAL, PAGE_GOAL = 0.1, 0.2
DTYPES = ("float32", "bfloat16")


def make_results(config: int, chance: random.Random) -> list[CheckResult]:
    """The results of one config."""
    name = f"models.model_{config}"
    path = f"models/model_{config}_patch_gen_config.py"
    results = []
    for item in ITEMS:
        status: Status = "clean"
        errors: tuple[Problem, ...] = ()
        if chance.random() < 1 / 60:
            status = "drifted" if item == "drift" else "failed"
            errors = (Problem("the loss differs by 3.1e-3, and 1e-4 is allowed"),)
        figures = {f"Model, batch, {dtype}: {SHARE}": chance.random() for dtype in DTYPES}
        figures = figures if item.startswith("parity") else {}
        check = item.partition("[")[0]
        results.append(
            CheckResult(name, path, 3, check, status, errors=errors, figures=figures, item=f"{path}::{item}")
        )
    return results


def fill(transactions: Transactions, store: Store, wanted: int) -> tuple[list[float], list[float], str]:
    """Hand in runs; returns the seconds of each hand-in and of each end with its baseline, and the last run."""
    chance, hand_ins, ends, run_id = random.Random(1), [], [], ""
    with transactions() as session:
        session.add(
            Repository(name="acme/models", url="https://git.example/acme/models.git", created=BEGIN, is_public=True)
        )
    for number in range(-(-wanted // (CONFIGS * len(ITEMS)))):
        now = BEGIN + timedelta(minutes=number * 30)
        with transactions() as session:
            repository = session.scalars(select(Repository)).one()
            cause = RunCause("webhook", f"delivery {number}", "main", f"{number:040x}", subject="Change a model")
            run = begin_run(session, repository, cause, now)
            start_run(session, run.id, "worker", now)
            set_environment(session, run.id, EnvironmentFacts(torch="2.9"), now)
            choose_baseline(session, run.id, "", lambda older, newer: older <= newer)
        for config in range(CONFIGS):
            packed = [pack(result) for result in make_results(config, chance)]
            start = time.perf_counter()
            with transactions() as session:
                add_results(session, store, run, ".", packed, now)
            hand_ins.append(time.perf_counter() - start)
        start = time.perf_counter()
        with transactions() as session:
            end_run(session, run.id, now)
        ends.append(time.perf_counter() - start)
        run_id = run.id
    return hand_ins, ends, run_id


def queries(run_id: str) -> dict[str, Callable[[Session], object]]:
    """What the pages ask."""
    key = ConfigKey(".", "models/model_7_patch_gen_config.py", "models.model_7")
    return {
        "overview": lambda session: read_overview(session, None, BEGIN),
        "branch": lambda session: read_grid(session, read_lines(session, Run.id == run_id)[0]),
        "run": lambda session: read_run(session, run_id),
        "config": lambda session: read_config(session, 1, "main", key),
        "release matrix": lambda session: read_matrix(session, session.get_one(Repository, 1)),
        "releases": lambda session: read_releases(session, None),
        "jobs": lambda session: read_work(session, None),
        "audit": lambda session: read_audit(session, None),
    }


def pages(run_id: str) -> dict[str, str]:
    """The addresses of pages."""
    config = "project=.&path=models/model_7_patch_gen_config.py&config=models.model_7"
    return {
        "/": "/",
        "/repositories": "/repositories/1",
        "/repositories/branches": "/repositories/1/branches/main",
        "/repositories/config": f"/repositories/1/config?{config}",
        "/repositories/releases": "/repositories/1/releases",
        "/runs": f"/runs/{run_id}",
        "/work": "/work",
        "/approvals": "/approvals",
        "/badge": "/badge/1/main.svg",
        "/feeds": "/feeds/1.atom",
    }


@contextmanager
def database(kind: str, folder: Path) -> Iterator[str]:
    """The URL of an empty database."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'service.sqlite'}"
        return
    with PostgresServer() as server:
        yield server.make_database("service")


def milliseconds(name: str, seconds: list[float]) -> float:
    """Print a row, and return its 95th percentile in seconds."""
    ordered = sorted(seconds)
    high = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    print(f"{name:32} {statistics.median(ordered) * 1000:9.1f} {high * 1000:9.1f}", flush=True)
    return high


def run(kind: str, wanted: int, rounds: int) -> bool:
    """Fill a database, time its queries, and return whether each reaches the goal."""
    with tempfile.TemporaryDirectory() as name, database(kind, Path(name)) as url:
        engine, store = open_database(url), Store(Path(name) / "files")
        upgrade_database(engine)
        transactions = make_transactions(engine)
        begin = time.perf_counter()
        hand_ins, ends, last = fill(transactions, store, wanted)
        seconds = time.perf_counter() - begin
        with transactions() as session:
            count = session.scalar(select(func.count(Result.id)))
        print(f"\n{kind}: {count:,} results in {seconds:.0f} s\n{'milliseconds':32} {'median':>9} {'95 %':>9}")
        milliseconds(f"hand in {len(ITEMS)} results", hand_ins)
        milliseconds("end a run", ends)
        is_good = True
        clock = time.process_time if kind == "sqlite" else time.perf_counter  # SQLite works in this process
        for query, read in queries(last).items():
            times = []
            for _ in range(rounds):
                start = clock()
                with make_readings(engine)() as session:
                    read(session)
                times.append(clock() - start)
            is_good &= milliseconds(query, times) < GOAL
        site = open_site(ServiceSettings(Path(name), database=url))
        visitor = TestClient(build_app(site), base_url="http://127.0.0.1")
        for page, address in pages(last).items():
            times = []
            for _ in range(rounds):
                start = clock()
                assert visitor.get(address).status_code == 200, address
                times.append(clock() - start)
            is_good &= milliseconds(page, times) < PAGE_GOAL
        start = time.perf_counter()
        settings = ServiceSettings(Path(name), retention=Retention(runs=1))
        with transactions() as session:
            removal = remove_old(session, store, settings, BEGIN + timedelta(days=1))
        with transactions() as session:
            removal = remove_old(session, store, settings, BEGIN + timedelta(days=3))
        print(f"retention: {removal} in {time.perf_counter() - start:.1f} s")
        engine.dispose()
    return is_good


def main() -> int:
    """Run it; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--postgresql", action="store_true")
    options = parser.parse_args()
    return 0 if run("postgresql" if options.postgresql else "sqlite", options.results, options.rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
