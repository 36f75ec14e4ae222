"""What was said to be remembered is remembered, however abruptly the service or its database ends."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from service_samples import make_result
from service_team import Team
from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError

from patchgen_service.database.engine import make_transactions, open_database
from patchgen_service.database.migrating import upgrade_database
from patchgen_service.database.tables import Repository, Result, Run
from patchgen_service.store import Store
from tools.postgresql import PostgresServer

WRITER = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from service_samples import make_result
from service_team import Team
from patchgen_service.database.engine import make_transactions, open_database
from patchgen_service.database.tables import Run
from patchgen_service.store import Store
from sqlalchemy import select

team = Team(make_transactions(open_database(sys.argv[1])), Store(Path(sys.argv[2])))
with team.transactions() as session:
    run = session.scalars(select(Run)).one()
for number in range(10_000):
    team.add(run, *(make_result(f"models.m{number}", item) for item in ("drift", "contract")))
    print(number, flush=True)
"""


def remembered(team: Team) -> int:
    with team.transactions() as session:
        return session.scalar(select(func.count(Result.id))) or 0


@pytest.mark.slow
def test_a_service_that_is_killed_while_it_writes_loses_nothing(sqlite_team: Team, tmp_path: Path) -> None:
    sqlite_team.begin("a" * 40)
    url = f"sqlite:///{tmp_path / 'test.sqlite'}"
    root = Path(__file__).parents[3]
    command = [
        sys.executable,
        "-c",
        WRITER,
        url,
        str(sqlite_team.store.folder),
        str(root),
        str(root / "tests/service"),
    ]
    chance = random.Random(7)
    most = 0
    for _ in range(3):
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        for _ in range(chance.randint(1, 20)):
            writer.stdout.readline()
        writer.kill()
        rest = writer.stdout.read().split()
        writer.wait()
        most = max(most, *(int(number) + 1 for number in rest)) if rest else most
        count = remembered(sqlite_team)
        assert count >= 2 * most
        assert count % 2 == 0


@pytest.mark.slow
def test_postgresql_that_is_killed_loses_nothing_and_is_written_to_again(
    postgres_server: PostgresServer, tmp_path: Path, make_repository: Callable[..., Repository]
) -> None:
    engine = open_database(postgres_server.make_database("kills"))
    upgrade_database(engine)
    team = Team(make_transactions(engine), Store(tmp_path / "files"))
    with team.transactions() as session:
        make_repository(session)
    run = team.begin("a" * 40)
    done: list[int] = []

    def write() -> None:
        with suppress(DBAPIError):
            for number in range(len(done), 10_000):
                team.add(run, make_result(f"models.m{number}"))
                done.append(number)

    for _ in range(2):
        before = len(done)
        writer = threading.Thread(target=write)
        writer.start()
        while len(done) < before + 3 and writer.is_alive():
            time.sleep(0.005)
        postgres_server.kill()
        writer.join()
        postgres_server.start()
        with team.transactions() as session:
            assert session.scalars(select(Run.id)).one() == run.id
        assert len(done) <= remembered(team) <= len(done) + 1
    assert team.add(run, *(make_result(f"models.m{number}") for number in range(len(done) + 1))) <= 1
    assert remembered(team) == len(done) + 1
    engine.dispose()
