"""What webhooks asked for is done after they were stored: soon, once, and by a later process where one ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import pytest
from service_samples import NOW, GitProject
from service_team import Team
from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_service.accounts.people import add_person
from patchgen_service.database.tables import Repository, Run, WebhookDelivery
from patchgen_service.forges.delivery import Delivery
from patchgen_service.jobs.context import JobContext
from patchgen_service.jobs.deliveries import handle_deliveries
from patchgen_service.jobs.service import Jobs
from patchgen_service.records.approvals import digest_regenerated
from patchgen_service.records.deliveries import NewDelivery, store_deliveries
from patchgen_service.records.files import keep_file
from patchgen_service.records.new_runs import RunCause, begin_run
from tests.service.isolation.test_limits import processes_with
from tests.service.jobs.test_jobs import LOOP, add_repository, begin, project, read_run, shop, start, wait_until

__all__ = ["project", "shop", "start"]


def store(session: Session, *names: str, **fields: str) -> None:
    pushes = [
        Delivery(name, "push", **{"branch": name, "sha": "a" * 40, "message": "Change", **fields}) for name in names
    ]
    store_deliveries(session, [NewDelivery(1, push.delivery, asdict(push)) for push in pushes], NOW)


def branches(session: Session) -> list[str]:
    return list(session.scalars(select(Run.branch).order_by(Run.number)))


def test_deliveries_are_handled_in_their_order_and_once(team: Team) -> None:
    for names in (("main", "other"), ("other", "third")):
        with team.transactions() as session:
            store(session, *names)
    for expected in (2, 1, 0):
        with team.transactions() as session:
            assert len(handle_deliveries(session, "", NOW, 2)) == expected
    with team.transactions() as session:
        assert branches(session) == ["main", "other", "third"]


def test_delivery_that_cannot_be_handled_spoils_no_other(team: Team, caplog: pytest.LogCaptureFixture) -> None:
    with team.transactions() as session:
        store(session, "main")
        store(session, "long", branch="x" * 501)
        store(session, "other")
    with team.transactions() as session:
        assert len(handle_deliveries(session, "", NOW, 10)) == 3
    with team.transactions() as session:
        assert branches(session) == ["main", "other"]
        assert session.scalars(select(WebhookDelivery.handled)).all() == [NOW] * 3
    assert "at most 500 characters" in caplog.text


def test_what_the_database_does_not_take_keeps_no_other_waiting(team: Team, caplog: pytest.LogCaptureFixture) -> None:
    with team.transactions() as session:
        store(session, "main", "next")
        store(session, "strange", branch="a\0b")  # which PostgreSQL has no room for
        store(session, "next", "last")
    with team.transactions() as session:
        handle_deliveries(session, "", NOW, 10)
    with team.transactions() as session:
        assert [branch for branch in branches(session) if "\0" not in branch] == ["main", "next", "last"]
        assert session.scalars(select(WebhookDelivery.handled)).all() == [NOW] * 4
        is_postgresql = session.get_bind().dialect.name == "postgresql"
    assert ("the delivery strange of repository 1 is not handled" in caplog.text) == is_postgresql


def test_a_repository_that_is_gone_takes_none(team: Team) -> None:
    with team.transactions() as session:
        store_deliveries(session, [NewDelivery(9, "late", asdict(Delivery("late", "push")))], NOW)
        assert session.scalars(select(WebhookDelivery)).all() == []


@pytest.mark.slow
def test_what_an_earlier_process_left_and_what_one_is_told_of_is_handled(
    project: GitProject, shop: JobContext, start: Callable[..., Jobs]
) -> None:
    add_repository(shop, project)
    shop.change(lambda session: store(session, "left"))
    jobs = start(shop, carries_out=0)
    wait_until(lambda: shop.change(branches) == ["left"])
    shop.change(lambda session: store(session, "told"))
    jobs.handle_deliveries()
    wait_until(lambda: shop.change(branches) == ["left", "told"])


@pytest.mark.slow
def test_a_deleted_branch_ends_the_processes_of_its_run_and_a_press_of_the_button_is_carried_out(
    project: GitProject, shop: JobContext, start: Callable[..., Jobs]
) -> None:
    project.write("models/loop/loop_patch_gen_config.py", LOOP)
    repository = add_repository(shop, project, forge="github")
    approved: list[int] = []
    jobs = start(shop, carries_out=1, approve=approved.append)
    sha = project.commit("Loop")
    run = begin(shop, repository, sha)
    jobs.begin(run)
    wait_until(lambda: bool(processes_with(f"work/{run}")))
    with shop.transactions() as session:
        person = add_person(session, "ada", "tests", NOW, is_admin=True)
        person.identities = {"github": "42"}
        other = begin_run(session, session.get_one(Repository, repository), RunCause("push", "ci", "ci", sha), NOW)
        keep_file(session, shop.store, other.id, "generated", "models/toy.py", b"new", NOW)
        other.status = "drifted"
        digest = digest_regenerated(session, other.id)
        pressed = Delivery("press", "approve", sha=sha, run=other.id, approves=digest[:12], actor_id="42")
        closed = Delivery("closed", "closed", "main", before=sha)
        store_deliveries(session, [NewDelivery(1, one.delivery, asdict(one)) for one in (pressed, closed)], NOW)
    jobs.handle_deliveries()
    wait_until(lambda: not processes_with(f"work/{run}") and approved == [1], 20)
    assert (read_run(shop, run).status, read_run(shop, run).message) == ("cancelled", "the branch was deleted")
