"""A process that is killed after a forge has taken a post and before that is noted does not post it again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from cryptography.fernet import Fernet
from posting_team import PostingTeam
from service_samples import NOW, make_result
from service_team import Team

from patchgen_core.errors import Problem
from patchgen_service.database.engine import make_transactions, open_database
from patchgen_service.database.migrating import upgrade_database
from patchgen_service.database.tables import Repository
from patchgen_service.posting.sending import Postage
from patchgen_service.secrets import SecretBox
from patchgen_service.settings import MailSettings
from patchgen_service.store import Store
from tests.service.forges.forge_server import TOKEN, Fault, ForgeServer
from tests.service.forges.github_app import make_app, write_key

_ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forge_name", "database"), [("github", "sqlite"), ("gitlab", "postgresql")], ids=["github", "gitlab"]
)
def test_nothing_is_posted_twice(
    request: pytest.FixtureRequest, tmp_path: Path, store: Store, http: httpx.Client, forge_name: str, database: str
) -> None:
    sqlite = f"sqlite:///{tmp_path / 'test.sqlite'}"
    database_url = sqlite if database == "sqlite" else request.getfixturevalue("postgresql_url")
    engine = open_database(database_url)
    upgrade_database(engine)
    transactions = make_transactions(engine)
    key = Fernet.generate_key().decode()
    forge = ForgeServer(forge_name)
    with transactions() as session:
        columns = {"forge": forge_name, "forge_url": forge.url, "forge_token": SecretBox(key).encrypt(TOKEN)}
        session.add(Repository(name="acme/models", url="u", projects=["."], created=NOW, **columns))
    app = make_app(forge, http)
    team = PostingTeam(Team(transactions, store), Postage(http, MailSettings(), SecretBox(key), app))
    pem = write_key(tmp_path / "app.pem")
    red = make_result("bad", "parity", "failed", errors=(Problem("wrong"),))
    team.run("a" * 40, red, branch="fix", pull_request=5)
    forge.fault_methods, forge.fault_path = ("POST",), "acme"
    kinds = 3 if forge_name == "github" else 2
    for number in range(1, kinds + 1):
        forge.faults = [Fault(seconds=30, is_late=True)]
        _kill_after(forge, number, [database_url, key, team.team.now.isoformat(), forge.url, str(pem)])
        team.team.now += 2 * (NOW - NOW.replace(hour=11))
    forge.faults = []
    team.send()
    assert set(team.posts().values()) == {"sent", "obsolete"}
    assert [len(forge.statuses), len(forge.comments)] == [1, 1]
    assert len(forge.check_runs) == (1 if forge_name == "github" else 0)
    forge.close()
    engine.dispose()


def _kill_after(forge: ForgeServer, posted: int, arguments: list[str]) -> None:
    """Kill a sender once so many things are on the forge, whose answer it is still waiting for."""
    command = [sys.executable, str(Path(__file__).with_name("send_forever.py")), *arguments]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(_ROOT)})
    end = time.monotonic() + 60
    while len(forge.statuses) + len(forge.comments) + len(forge.check_runs) < posted:
        assert process.poll() is None, "it ended by itself"
        assert time.monotonic() < end
        time.sleep(0.02)
    process.kill()
    process.wait()
