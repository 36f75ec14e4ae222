"""What the service's memory costs: results handed in, and the queries of its pages over 100,000 of them.

Runs of 30 configs with 12 items each are handed in on SQLite as a gate hands them in, a config at a time, until there
are as many results as wanted; an item in 60 is red. Then they are moved to PostgreSQL. On both, each query of a page
is timed, and each page as a browser gets it, in processor time of this process and of the server, where there is one.
Last, by the clock, how long after a red result the page of its run, the forge and people know of it. Exit code 1 when
a query takes more than 100 ms, a page more than 200, or news more than a second.

    python benchmarks/service.py [--results 100000] [--rounds 20]
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from benchmarks.telling import TOLD, time_telling
from patchgen_core.checks.result import CheckResult, Status, pack
from patchgen_core.errors import Problem
from patchgen_service.cli.serving import open_site, pass_over_loaded
from patchgen_service.database.copying import copy_database
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
GOAL, PAGE_GOAL, TELLING_GOAL = 0.1, 0.2, 1.0
HANDING_IN = (f"hand in {len(ITEMS)} results", "end a run")
"""What has no goal: it waits for the disk."""
DTYPES = ("float32", "bfloat16")
Clock = Callable[[], float]
Times = dict[str, list[float]]


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


def time_all(actions: Mapping[str, Callable[[], object]], rounds: int, clock: Clock) -> Times:
    """The seconds that each action takes, so many times over."""
    times: Times = {}
    for name, act in actions.items():
        act()  # what is compiled and cached once is no page's
        for _ in range(rounds):
            start = clock()
            act()
            times.setdefault(name, []).append(clock() - start)
    return times


def time_looking(engine: Engine, folder: Path, url: str, run_id: str, rounds: int, clock: Clock) -> Times:
    """The seconds of each query of a page, then those of each page as a browser gets it."""
    readings = make_readings(engine)
    visitor = TestClient(build_app(open_site(ServiceSettings(folder, database=url))), base_url="http://127.0.0.1")

    def ask(read: Callable[[Session], object]) -> None:
        with readings() as session:
            read(session)

    def look(address: str) -> None:
        assert visitor.get(address).status_code == 200, address

    visitor.get("/")
    pass_over_loaded()  # as the service does once it has started
    asks = {name: partial(ask, read) for name, read in queries(run_id).items()}
    looks = {name: partial(look, address) for name, address in pages(run_id).items()}
    return time_all(asks, rounds, clock) | time_all(looks, rounds, clock)


def fill_sqlite(folder: Path, wanted: int) -> tuple[Engine, Times, str]:
    """A database on SQLite with so many results; what it took to hand them in, and the last run."""
    engine = open_database(f"sqlite:///{folder / 'service.sqlite'}")
    upgrade_database(engine)
    begin = time.perf_counter()
    hand_ins, ends, run_id = fill(make_transactions(engine), Store(folder / "files"), wanted)
    with make_readings(engine)() as session:
        count = session.scalar(select(func.count(Result.id)))
    print(f"{count:,} results handed in on SQLite in {time.perf_counter() - begin:.0f} s")
    return engine, dict(zip(HANDING_IN, (hand_ins, ends))), run_id


def copy_to_postgresql(source: Engine, url: str) -> Engine:
    """The same rows on PostgreSQL, moved there as a team would."""
    engine, begin = open_database(url), time.perf_counter()
    rows = sum(copy_database(source, engine).values())
    print(f"{rows:,} rows moved to PostgreSQL in {time.perf_counter() - begin:.0f} s")
    return engine


def time_retention(engine: Engine, folder: Path) -> None:
    """Remove all that is old."""
    begin = time.perf_counter()
    settings = ServiceSettings(folder, retention=Retention(runs=1))
    for days in (1, 3):
        with make_transactions(engine)() as session:
            removal = remove_old(session, Store(folder / "files"), settings, BEGIN + timedelta(days=days))
    print(f"retention on {engine.dialect.name}: {removal} in {time.perf_counter() - begin:.1f} s")


def show(times: Mapping[str, Times]) -> bool:
    """Print a row for each action with the times on each kind of database; whether all reach their goals."""
    print("milliseconds".ljust(28) + "".join(f"{kind:>14}{'95 %':>9}" for kind in times))
    is_good = True
    for name in dict.fromkeys(name for rows in times.values() for name in rows):
        line = name.ljust(28)
        for rows in times.values():
            ordered = sorted(rows.get(name, ()))
            if not ordered:
                line += " " * 23
                continue
            high = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
            goal = TELLING_GOAL if name in TOLD else PAGE_GOAL if name.startswith("/") else GOAL
            is_good &= name in HANDING_IN or high < goal
            line += f"{statistics.median(ordered) * 1000:14.1f}{high * 1000:9.1f}"
        print(line, flush=True)
    return is_good


def run(wanted: int, rounds: int) -> bool:
    """Time both kinds of database over the same rows, and return whether each time reaches its goal."""
    with tempfile.TemporaryDirectory() as name, PostgresServer() as server:
        folder, url = Path(name), server.make_database("service")
        sqlite, handing_in, last = fill_sqlite(folder, wanted)
        postgresql = copy_to_postgresql(sqlite, url)
        times = {
            "SQLite": handing_in | time_looking(sqlite, folder, "", last, rounds, time.process_time),
            "PostgreSQL": time_looking(
                postgresql, folder, url, last, rounds, lambda: time.process_time() + server.processor_seconds
            ),
        }
        for kind, database in (("SQLite", ""), ("PostgreSQL", server.make_database("telling"))):
            times[kind] |= time_telling(folder / f"telling on {kind}", database, rounds)
        is_good = show(times)
        for engine in (sqlite, postgresql):
            time_retention(engine, folder)
            engine.dispose()
    return is_good


def main() -> int:
    """Run it; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    return 0 if run(options.results, options.rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
