"""Kill the service, a worker or PostgreSQL at random moments: each run is finished once and whole, and told of once.

Run it as ``python -m tools.service_kills``, or ``make kills``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from cryptography.fernet import Fernet
from sqlalchemy import select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from patchgen_service.database.engine import Transactions, make_transactions, open_database
from patchgen_service.database.migrating import upgrade_database
from patchgen_service.database.tables import Post, Repository, Result, Run
from patchgen_service.database.words import UNFINISHED
from patchgen_service.records.new_runs import RunCause, begin_run
from patchgen_service.secrets import SecretBox
from tests.service.forges.forge_server import TOKEN, ForgeServer
from tools.postgresql import PostgresServer
from tools.service_process import ServiceProcess

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
_KINDS = ("sqlite", "postgresql")
_SECONDS_TO_FINISH = 600
WHO = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")


@dataclass(frozen=True)
class Outcome:
    """What became of runs: how many came to what, and what is wrong with which of them."""

    statuses: Counter[str]
    problems: tuple[str, ...]
    kills: int


def make_repository(folder: Path, configs: int) -> None:
    """A git repository with configs whose files are not generated, so that each drifts."""
    files = dict(_FILES)
    for number in range(configs):
        name = f"toy{number}"
        files[f"models/{name}/{name}_patch_gen_config.py"] = _CONFIG.format(name=name, factor=number + 2)
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], [*WHO, "commit", "-q", "-m", "Begin"]):
        run_git(folder, *arguments)


def add_repository(transactions: Transactions, folder: Path, forge: ForgeServer, secrets: SecretBox) -> int:
    """Remember a repository that is on a forge, and return its number."""
    values = {"forge": forge.forge, "forge_url": forge.url, "forge_token": secrets.encrypt(TOKEN)}
    now = datetime.now(timezone.utc)
    with transactions() as session:
        repository = Repository(
            name="acme/models", url=str(folder), projects=["."], checks=_CHECKS, created=now, **values
        )
        session.add(repository)
        session.flush()
        return repository.id


def begin(transactions: Transactions, repository: int, folder: Path, number: int) -> str:
    """Commit something, begin a run of it as a button would, and return its id."""
    run_git(folder, *WHO, "commit", "-q", "--allow-empty", "-m", f"Commit {number}")
    with transactions() as session:
        cause = RunCause("manual", f"button-{number}", "main", run_git(folder, "rev-parse", "HEAD"))
        return begin_run(session, session.get_one(Repository, repository), cause, datetime.now(timezone.utc)).id


class Processes:
    """A service, on PostgreSQL with a worker that carries out its runs: killed in turns, and started again."""

    def __init__(self, folder: Path, url: str, key: str, server: PostgresServer | None) -> None:
        port = str(_find_free_port())
        variables = {"PATCHGEN_DATABASE": url, "PATCHGEN_SECRET_KEY": key, "PATCHGEN_INDEX_URL": "http://127.0.0.1:9"}
        variables["PATCHGEN_WORKERS"] = "2" if server is None else "0"
        self._server = server
        self._all = [ServiceProcess(folder / "service", variables, "--port", port)]
        if server is not None:
            service = ("--service", f"http://127.0.0.1:{port}")
            more = {**variables, "PATCHGEN_WORKERS": "2"}
            self._all.append(ServiceProcess(folder / "far", more, "worker", "--name", "far", *service))
        for process in self._all:
            process.log = folder / "log"

    def start(self) -> float:
        """Start them; returns for how many seconds one is about to start after it says that it has."""
        begin = time.monotonic()
        for process in self._all:
            process.start()
        return time.monotonic() - begin

    def kill(self, number: int) -> None:
        """Kill one with no word, and start it again; the number decides which."""
        turn = number % (len(self._all) + (self._server is not None))
        if turn < len(self._all):
            self._all[turn].kill()
            self._all[turn].start()
        elif self._server is not None:
            self._server.kill()
            self._server.start()

    def stop(self) -> None:
        """Tell all to stop, and wait."""
        for process in reversed(self._all):
            process.stop()


def judge_runs(transactions: Transactions, expected: int) -> tuple[Counter[str], list[str]]:
    """What became of all runs, of which each should have so many results, all drifted or clean."""
    problems = []
    with transactions() as session:
        runs = session.scalars(select(Run).order_by(Run.number)).all()
        for run in runs:
            items = session.scalars(select(Result.item + Result.path).where(Result.run_id == run.id)).all()
            if run.status != "drifted" or len(items) != expected or len(set(items)) != expected:
                problems.append(f"run {run.number} is {run.status} with {len(items)} results: {run.message}")
    return Counter(run.status for run in runs), problems


def judge_posts(transactions: Transactions, forge: ForgeServer) -> list[str]:
    """Whether the forge was told of each run how it ended, and nothing of it twice."""
    with transactions() as session:
        addresses = [f"/runs/{run}" for run in session.scalars(select(Run.id).order_by(Run.number))]
    problems = []
    for address in addresses:
        told = [status for status in forge.statuses if status["target_url"].endswith(address)]
        states = [(status["status"], status["description"]) for status in told]
        if not states or not _is_end(*states[-1]) or len(set(states)) != len(states):
            problems.append(f"of {address} the forge was told {states}")
    return problems


def _is_end(state: str, description: str) -> bool:
    """Whether a status is that of a run which has ended red, and not of one that goes on and is red already."""
    return state == "failure" and description.startswith("drifted")


def wait_for_end(transactions: Transactions, is_left: Callable[[Session], object], what: str) -> None:
    """Wait until something is not left any more; a TimeoutError where it stays."""
    deadline = time.monotonic() + _SECONDS_TO_FINISH
    while time.monotonic() < deadline:
        with contextlib.suppress(DBAPIError), transactions() as session:  # the database may be starting
            if not is_left(session):
                return
        time.sleep(0.2)
    raise TimeoutError(f"there are {what} that have not ended")


def has_unfinished_runs(session: Session) -> object:
    """Whether a run goes on."""
    return session.scalar(select(Run.id).where(Run.status.in_(UNFINISHED)).limit(1))


def has_posts_to_send(session: Session) -> object:
    """Whether a post is to be sent; those that a killed process had taken are not waited for any longer."""
    now = datetime.now(timezone.utc)
    session.execute(update(Post).where(Post.state.in_(("waiting", "sending")), Post.due > now).values(due=now))
    return session.scalar(select(Post.id).where(Post.state.in_(("waiting", "sending"))).limit(1))


def kill_at_random(
    folder: Path, url: str, kills: int, seed: int, longest: float = 3.0, server: PostgresServer | None = None
) -> Outcome:
    """Begin a run for each kill, kill at random moments, and say what became of the runs and of what is told of them.

    On PostgreSQL, the service, a worker and the database's server are killed in turns.
    """
    chance, forge, key = random.Random(seed), ForgeServer("forgejo"), Fernet.generate_key().decode()
    make_repository(folder / "repository", 3)
    engine = open_database(url)
    upgrade_database(engine)
    transactions = make_transactions(engine)
    repository = add_repository(transactions, folder / "repository", forge, SecretBox(key))
    (folder / "service").mkdir()
    processes = Processes(folder, url, key, server)
    longest += processes.start()  # else a slow machine would be killed at its start alone
    try:
        for number in range(kills):
            begin(transactions, repository, folder / "repository", number)
            time.sleep(chance.uniform(0.05, longest))
            processes.kill(number)
            engine.dispose()
        wait_for_end(transactions, has_unfinished_runs, "runs")
        processes.kill(0)
        wait_for_end(transactions, has_posts_to_send, "posts")
        statuses, problems = judge_runs(transactions, 7)
        return Outcome(statuses, (*problems, *judge_posts(transactions, forge)), kills)
    finally:
        processes.stop()
        engine.dispose()
        forge.close()


def main() -> int:
    """The command; 1 where something was lost."""
    parser = argparse.ArgumentParser(prog="service_kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--on", nargs="+", choices=_KINDS, default=_KINDS, help="kinds of database")
    options = parser.parse_args()
    code = 0
    for kind in options.on:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            os.chmod(folder, 0o755)
            server = stack.enter_context(PostgresServer()) if kind == "postgresql" else None
            url = server.make_database("kills") if server else f"sqlite:///{folder / 'service.sqlite'}"
            start = time.monotonic()
            outcome = kill_at_random(folder, url, options.kills, options.seed, server=server)
            seconds = time.monotonic() - start
        print(f"{kind}: {outcome.kills} kills in {seconds:.0f} seconds; runs: {dict(outcome.statuses)}", flush=True)
        for problem in outcome.problems:
            print(f"  {problem}")
        code = code or int(bool(outcome.problems))
    return code


def run_git(folder: Path, *arguments: str) -> str:
    """What git prints in a folder."""
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
