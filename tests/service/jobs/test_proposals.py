"""The weekly pull request for a release: made when its time comes, put off while the forge is away, kept as one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import httpx
import pytest
from service_samples import GitProject
from sqlalchemy import select

from patchgen_service.database.engine import Transactions
from patchgen_service.database.tables import AuditEntry, Release, Repository
from patchgen_service.environments import Recipe
from patchgen_service.isolation.probe import Isolation
from patchgen_service.jobs.context import JobContext
from patchgen_service.jobs.proposals import Proposer
from patchgen_service.jobs.service import Jobs
from patchgen_service.records.proposals import ProposalNote, note_proposal, read_proposal
from tests.service.forges.forge_server import TOKEN, Fault, ForgeServer
from tests.service.jobs.test_jobs import add_repository, make_shop, start, wait_until
from tests.service.running.test_release_study import install_by_hand
from tests.service.running.test_upgrade import NEW, old_project

pytestmark = pytest.mark.torch

__all__ = ["old_project", "start"]
MONDAY = datetime(2026, 11, 23, 6, 0, tzinfo=timezone.utc)
BRANCH = f"patchgen/transformers-{NEW}"


@pytest.fixture
def forge() -> Iterator[ForgeServer]:
    server = ForgeServer("forgejo")
    yield server
    server.close()


class Office:
    """A repository on a forge, with a service whose clock is moved by hand."""

    def __init__(self, shop: JobContext, project: GitProject, forge: ForgeServer) -> None:
        self.now = MONDAY - timedelta(hours=1)
        self.context = dataclasses.replace(shop, clock=lambda: self.now, isolation=Isolation("none"))
        self.project, self.forge = project, forge
        token = self.context.secrets.encrypt(TOKEN)
        values = {"forge": "forgejo", "forge_url": forge.url, "forge_token": token, "is_trusted": True}
        self.repository = add_repository(shop, project, projects=["sub"], constraints="constraints.txt", **values)
        with shop.transactions() as session:
            for version, is_candidate in ((NEW, False), ("5.1.0", False), ("99.0rc1", True)):
                session.add(Release(version=version, is_candidate=is_candidate, seen=self.now))
        self.proposer = Proposer(self.context, httpx.Client(timeout=5))
        self.install((project.folder / "constraints.txt").read_text())

    def install(self, constraints: str) -> None:
        """Make the environment of a release by hand: the one of these tests, under another name."""
        place = self.context.settings.environments_folder / Recipe(constraints=constraints, transformers=NEW).digest
        install_by_hand(place)

    def at(self, **later: float) -> ProposalNote | None:
        """What is known after the clock came to a time after Monday's six o'clock."""
        self.now = MONDAY + timedelta(**later)
        self.proposer.propose_due()
        with self.context.transactions() as session:
            return read_proposal(session, self.repository)

    def count_notes(self) -> int:
        with self.context.transactions() as session:
            return len(session.scalars(select(AuditEntry).filter_by(action="release.propose")).all())


@pytest.fixture
def office(tmp_path: Path, sqlite_transactions: Transactions, forge: ForgeServer, old_project: GitProject) -> Office:
    shop = make_shop(tmp_path, f"sqlite:///{tmp_path / 'test.sqlite'}", sqlite_transactions)
    project = old_project.copy_to(tmp_path / "repository")
    project.git("config", "receive.denyCurrentBranch", "ignore")
    return Office(shop, project, forge)


@pytest.mark.slow
def test_there_is_one_pull_request_which_follows_and_ends_with_the_release_on_main(office: Office) -> None:
    assert office.at(hours=-1) is None  # what is new waits for the next time
    office.forge.faults = [Fault(500)]
    note = office.at(minutes=1)
    assert note is not None
    assert (note.state, "answered 500" in note.message) == ("failed", True)
    note = office.at(minutes=16)
    assert note is not None
    assert (note.version, note.state, note.files, note.causes) == (NEW, "open", 5, 1)
    (request,) = office.forge.pull_requests
    assert request["head"]["ref"] == BRANCH
    assert "reset gone: `sub/models/llama/llama_patch_gen_config.py`" in request["body"]
    assert f"transformers=={NEW}  # for now" in office.project.git("show", f"{BRANCH}:constraints.txt")
    first = office.project.git("rev-parse", BRANCH)
    assert office.at(hours=5) == note
    office.project.commit("Main goes on")
    office.at(days=7, minutes=1)
    assert office.project.git("rev-parse", f"{BRANCH}^") == office.project.git("rev-parse", "main")
    assert office.project.git("rev-parse", BRANCH) != first
    assert len(office.forge.pull_requests) == 1
    office.project.git("merge", "--quiet", BRANCH)
    note = office.at(days=14, minutes=1)
    assert note is not None
    assert (note.state, note.causes) == ("on main", 0)
    assert [request["state"] for request in office.forge.pull_requests] == ["closed"]
    assert office.count_notes() == 4


def test_a_pressed_button_is_carried_out_once_and_a_failure_is_told(
    office: Office, start: Callable[..., Jobs]
) -> None:
    asked: list[tuple[int, str, str]] = []

    def propose(repository: int, version: str, actor: str) -> None:
        asked.append((repository, version, actor))
        office.proposer.propose(repository, version, actor)

    with office.context.transactions() as session:
        session.get_one(Repository, office.repository).projects = ["nowhere"]
    jobs = start(office.context, carries_out=0, propose=propose)
    for _ in range(3):
        jobs.propose_release(office.repository, "", "Ada Lovelace")
    wait_until(lambda: office.count_notes() == 1)
    with office.context.transactions() as session:
        note = read_proposal(session, office.repository)
        assert note is not None
        assert (note.state, note.message) == ("failed", "The commit has no folder 'nowhere'.")
        assert session.scalars(select(AuditEntry.actor).filter_by(action="release.propose")).all() == ["Ada Lovelace"]
    assert asked == [(office.repository, "", "Ada Lovelace")]


def test_what_was_asked_for_while_nobody_could_be_told_is_made_within_minutes(office: Office) -> None:
    office.now = MONDAY
    with office.context.transactions() as session:
        session.get_one(Repository, office.repository).projects = ["nowhere"]
    wish = ProposalNote(NEW, "waiting", office.now)
    with office.context.transactions() as session:
        for _ in range(2):
            note_proposal(session, session.get_one(Repository, office.repository), "ada", wish)
    office.proposer.propose_wishes()
    assert office.count_notes() == 1  # whoever was told has a minute
    office.now += timedelta(minutes=2)
    for _ in range(2):
        office.proposer.propose_wishes()
    with office.context.transactions() as session:
        states = [entry.details["state"] for entry in session.scalars(select(AuditEntry).order_by(AuditEntry.id))]
    assert states == ["waiting", "failed"]


def test_a_clock_that_comes_back_from_the_future_forgets_it(office: Office) -> None:
    office.at(days=3650)
    office.context.change(lambda session: session.delete(session.get_one(Repository, office.repository)))
    with office.context.transactions() as session:
        session.add(Repository(name="acme/other", url="u", projects=["."], created=office.now, forge_token=""))
    assert office.at(days=1) is None
