"""Be a service whose disk is full and has room again, and print what became of what it was asked meanwhile.

    python -m tests.service.records.full_disk FOLDER

FOLDER is on a small disk of its own, which is filled.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from pathlib import Path

from service_samples import NOW, make_result
from service_team import Team
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from patchgen_core.checks.result import pack
from patchgen_service.database.engine import make_transactions, open_database
from patchgen_service.database.migrating import upgrade_database
from patchgen_service.database.tables import Repository
from patchgen_service.isolation.probe import Isolation
from patchgen_service.jobs.context import JobContext
from patchgen_service.records.results import read_result
from patchgen_service.records.runs import end_run, make_run_token
from patchgen_service.secrets import open_secrets
from patchgen_service.settings import ServiceSettings
from patchgen_service.store import Store, StoreError
from tests.service.web.web_visitors import Visitor, make_site


def fill(path: Path) -> None:
    """Write until nothing more can be written."""
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(os.urandom(4096))
    with open(path, "ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x")


def main(folder: Path) -> dict[str, object]:
    """What became of everything, by what it was."""
    engine = open_database(f"sqlite:///{folder / 'service.sqlite'}")
    upgrade_database(engine)
    team = Team(make_transactions(engine), Store(folder / "files"))
    with team.transactions() as session:
        session.add(Repository(name="acme/models", url="u", projects=["."], is_public=True, created=NOW))
    before = team.run("a" * 40, {"drift": "drifted"})
    run = team.begin("b" * 40)
    team.start(run)
    with team.transactions() as session:
        token = make_run_token(session, run.id)
    secrets = open_secrets(folder, {}, True)
    context = JobContext(ServiceSettings(folder), team.transactions, team.store, secrets, Isolation("none"))
    site = make_site(team.transactions, team.store, folder)
    visitor = Visitor(site)
    large = make_result(status="failed", reason=os.urandom(40000).hex())
    outcome: dict[str, object] = {}

    fill(folder / "ballast")
    try:
        team.add(run, large)
    except StoreError as error:
        outcome["stored"] = str(error).partition(": ")[2]
    pushed = {"project": ".", "results": [pack(large)]}
    answer = visitor.post(f"/api/v1/runs/{run.id}/results", json=pushed, headers={"Authorization": f"Bearer {token}"})
    outcome["pushed"] = answer.status_code
    try:
        for number in range(200):  # until no page of the database is left
            team.begin(f"{number:040}", branch="x" * 200)
    except OperationalError as error:
        outcome["database"] = str(error.orig)
    end = f"/api/v1/runs/{run.id}/end"
    answer = visitor.post(end, json={}, headers={"Authorization": f"Bearer {token}"})
    outcome["pushed to a full database"] = (answer.status_code, "Retry-After" in answer.headers)
    answer = visitor.get(f"/runs/{before.id}")
    outcome["page"] = (answer.status_code, "drifted" in answer.text)
    waiting = threading.Thread(target=lambda: context.change(lambda session: end_run(session, run.id, NOW)))
    waiting.start()
    waiting.join(1.0)
    outcome["waits"] = waiting.is_alive()

    (folder / "ballast").unlink()
    waiting.join(30.0)
    outcome["ended"] = team.read(run).ended is not None
    later = team.run("c" * 40, {"drift": "clean", "parity": "clean"})
    outcome["later"] = team.read(later).status
    outcome["before"] = read_result(team.store, team.results(before)["drift"]).status
    with engine.connect() as connection:
        outcome["database afterwards"] = connection.execute(text("PRAGMA integrity_check")).scalar()
    return outcome


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
