"""Kill the service, a worker or PostgreSQL at random moments, and see that each run is finished once and whole.

Run it as ``python -m tools.service_kills``, or ``make kills``.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError

from patchgen_service.database.engine import Transactions, make_transactions, open_database
from patchgen_service.database.migrating import upgrade_database
from patchgen_service.database.tables import Repository, Result, Run
from patchgen_service.database.words import UNFINISHED
from patchgen_service.isolation.probe import find_isolation
from patchgen_service.jobs.context import JobContext
from patchgen_service.jobs.service import Jobs
from patchgen_service.records.new_runs import RunCause, begin_run
from patchgen_service.secrets import open_secrets
from patchgen_service.settings import ServiceSettings
from patchgen_service.store import Store
from tools.postgresql import PostgresServer

_CONFIG = """
from patchgen import PatchConfig

config = PatchConfig("acme.models.toy.modeling_toy", "patched_modeling_{name}.py")


@config.override_method("Norm.forward")
def norm_forward(self, x):
    return x * {factor}
"""
_FILES = {
    "pyproject.toml": '[tool.patchgen]\nsearch_root = "models"\npackage_prefix = "models"\n',
    "acme-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n",
    "acme/__init__.py": "",
    "acme/models/__init__.py": "",
    "acme/models/toy/__init__.py": "",
    "acme/models/toy/modeling_toy.py": "class Norm:\n    def forward(self, x):\n        return x\n",
}
_CHECKS = ["drift", "contract"]
_SECONDS_TO_FINISH = 600
_SECONDS_TO_START = 120


@dataclass(frozen=True)
class Outcome:
    """What became of runs: how many came to what, and what is wrong with which of them."""

    statuses: Counter[str]
    problems: tuple[str, ...]
    kills: int


def make_repository(folder: Path, configs: int) -> str:
    """A git repository with configs whose files are not generated, so that each drifts; returns its commit."""
    files = dict(_FILES)
    for number in range(configs):
        name = f"toy{number}"
        files[f"models/{name}/{name}_patch_gen_config.py"] = _CONFIG.format(name=name, factor=number + 2)
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], [*who, "commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def add_repository(transactions: Transactions, folder: Path) -> int:
    """Remember a repository, and return its number."""
    with transactions() as session:
        repository = Repository(
            name="acme/models", url=str(folder), projects=["."], checks=_CHECKS, created=datetime.now(timezone.utc)
        )
        session.add(repository)
        session.flush()
        return repository.id


def begin(transactions: Transactions, repository: int, sha: str, number: int) -> str:
    """Begin a run, as a button would, and return its id."""
    with transactions() as session:
        cause = RunCause("manual", f"button-{number}", "main", sha)
        return begin_run(session, session.get_one(Repository, repository), cause, datetime.now(timezone.utc)).id


def work(folder: Path, url: str, name: str, size: int) -> None:
    """Be a process of the service that carries out runs, until it is told to stop."""
    settings = ServiceSettings(folder, database=url, index_url="http://127.0.0.1:9")
    transactions = make_transactions(open_database(settings.database_url))
    context = JobContext(
        settings,
        transactions,
        Store(settings.files_folder),
        open_secrets(folder, {}, True),
        find_isolation(["bubblewrap"]),
        name,
    )
    jobs = Jobs(context, size)
    jobs.start()
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    print("working", flush=True)
    stopped.wait()
    jobs.stop()


class WorkProcess:
    """A process that carries out runs, which is killed and started again."""

    def __init__(self, folder: Path, url: str, name: str = "service", size: int = 2) -> None:
        self._arguments = [str(folder), url, name, str(size)]
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it has begun to work a little later."""
        command = [sys.executable, "-m", "tools.service_kills", "work", *self._arguments]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=Path(__file__).parents[1])

    def wait_until_working(self) -> float:
        """Wait until it says so for the first time; returns how many seconds that took."""
        start = time.monotonic()
        while "working" not in self._log.read_text(encoding="utf-8"):
            if time.monotonic() > start + _SECONDS_TO_START:
                raise TimeoutError("the process does not start")
            time.sleep(0.05)
        return time.monotonic() - start

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """End it with no word."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """Tell it to stop, and return its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait()


def judge(transactions: Transactions, expected: int, kills: int) -> Outcome:
    """What became of all runs, of which each should have so many results, all drifted or clean."""
    problems = []
    with transactions() as session:
        runs = session.scalars(select(Run).order_by(Run.number)).all()
        for run in runs:
            items = session.scalars(select(Result.item + Result.path).where(Result.run_id == run.id)).all()
            if run.status != "drifted" or len(items) != expected or len(set(items)) != expected:
                problems.append(f"run {run.number} is {run.status} with {len(items)} results: {run.message}")
    return Outcome(Counter(run.status for run in runs), tuple(problems), kills)


def wait_for_end(transactions: Transactions, seconds: float = _SECONDS_TO_FINISH) -> None:
    """Wait until each run has ended; a TimeoutError where one does not."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with transactions() as session:
                if not session.scalars(select(Run.id).where(Run.status.in_(UNFINISHED)).limit(1)).all():
                    return
        except DBAPIError:  # the database is being started again
            pass
        time.sleep(0.1)
    raise TimeoutError("there are runs that have not ended")


def kill_at_random(
    folder: Path, url: str, kills: int, seed: int, longest: float = 3.0, server: PostgresServer | None = None
) -> Outcome:
    """Begin a run for each kill, kill at random moments, and say what became of the runs.

    Every third kill is one of the database's server, where there is one.
    """
    chance = random.Random(seed)
    sha = make_repository(folder / "repository", 3)
    engine = open_database(url)
    upgrade_database(engine)
    transactions = make_transactions(engine)
    repository = add_repository(transactions, folder / "repository")
    process = WorkProcess(folder / "service", url)
    (folder / "service").mkdir()
    process.start()
    longest += process.wait_until_working()  # else a slow machine would be killed at its start alone
    for number in range(kills):
        begin(transactions, repository, sha, number)
        time.sleep(chance.uniform(0.05, longest))
        if server is not None and number % 3 == 2:
            server.kill()
            server.start()
            engine.dispose()
        else:
            process.kill()
            process.start()
    try:
        wait_for_end(transactions)
        return judge(transactions, 7, kills)
    finally:
        process.stop()
        engine.dispose()


def main() -> int:
    """The command; 1 where something was lost."""
    parser = argparse.ArgumentParser(prog="service_kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    code = 0
    for kind in ("sqlite", "postgresql"):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            os.chmod(folder, 0o755)
            server = stack.enter_context(PostgresServer()) if kind == "postgresql" else None
            url = server.make_database("kills") if server else f"sqlite:///{folder / 'service.sqlite'}"
            start = time.monotonic()
            outcome = kill_at_random(folder, url, options.kills, options.seed, server=server)
            seconds = time.monotonic() - start
        print(f"{kind}: {outcome.kills} kills in {seconds:.0f} seconds; runs: {dict(outcome.statuses)}")
        for problem in outcome.problems:
            print(f"  {problem}")
        code = code or int(bool(outcome.problems))
    return code


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(Path(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]))
    else:
        sys.exit(main())
