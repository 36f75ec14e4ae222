"""What webhooks ask for: approvals by the button of a check run, runs once more, and what nobody needs any longer."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
from posting_team import URL, PostingTeam
from service_samples import NOW, make_result
from sqlalchemy import func, select

from patchgen_core.errors import Problem
from patchgen_service.accounts.people import add_person, find_person
from patchgen_service.accounts.roles import set_role
from patchgen_service.database.tables import Approval, Run
from patchgen_service.forges.delivery import Delivery
from patchgen_service.posting.answering import DeliveryAnswer, answer_delivery
from patchgen_service.records.deliveries import NewDelivery, store_deliveries
from patchgen_service.records.files import keep_file
from tests.service.forges.forge_server import Fault

_A, _B = "a" * 40, "b" * 40


def _drift(posting_team: PostingTeam, content: bytes = b"new", **cause: Any) -> Run:
    """A drifted run with a regenerated file, told to the forge."""
    team = posting_team.team
    run = team.begin(cause.pop("sha", _A), cause.pop("branch", "fix"), **cause)
    team.start(run)
    team.add(run, make_result("toy", "drift", "drifted", errors=(Problem("it differs"),)))
    with team.transactions() as session:
        keep_file(session, team.store, run.id, "generated", "models/toy.py", content, NOW)
    run = team.end(run)
    posting_team.queue(run)
    posting_team.send()
    return run


def _press(posting_team: PostingTeam, run: Run, button: str, **fields: Any) -> DeliveryAnswer:
    """What GitHub sends when somebody presses a button of a check run."""
    delivery = Delivery("press-1", "approve", run=run.id, approves=button, actor="ada")
    return _deliver(posting_team, delivery, actor_id="42", **fields)


def _deliver(posting_team: PostingTeam, what: Delivery, **fields: Any) -> DeliveryAnswer:
    with posting_team.team.transactions() as session:
        repository = posting_team.team.repository(session)
        return answer_delivery(session, repository, replace(what, **fields), URL, posting_team.team.now)


def _link(posting_team: PostingTeam, role: str = "approver", provider: str = "") -> None:
    """A person who signs in by the forge."""
    with posting_team.team.transactions() as session:
        repository = posting_team.team.repository(session)
        person = add_person(session, "ada", "tests", NOW)
        person.identities = {provider or f"github {repository.forge_url}": "42"}
        if role:
            set_role(session, person, repository, role, "tests", NOW)  # type: ignore[arg-type]


def _button(forge: Any) -> str:
    (action,) = forge.check_runs[-1]["actions"]
    assert len(action["identifier"]) <= 20
    assert len(action["description"]) <= 40
    return str(action["identifier"].removeprefix("approve-"))


def _count(posting_team: PostingTeam) -> int:
    with posting_team.team.transactions() as session:
        return session.scalar(select(func.count()).select_from(Approval)) or 0


def test_an_approver_approves_what_the_check_run_showed(posting_team: PostingTeam, forge) -> None:
    _link(posting_team)
    run = _drift(posting_team, pull_request=5)
    answers = [_press(posting_team, run, _button(forge)) for _ in range(3)]
    assert answers == [DeliveryAnswer(approval=1)] * 3
    assert _count(posting_team) == 1
    with posting_team.team.transactions() as session:
        assert session.get_one(Approval, 1).person_id == find_person(session, "ada").id
    posting_team.queue(run)
    posting_team.send()
    assert forge.check_runs[-1]["actions"] == []
    assert "Approved by ada; it is being carried out." in forge.comments[0]["body"]


@pytest.mark.parametrize(
    ("role", "provider", "reason"),
    [
        ("viewer", "", "need the role of an approver"),
        ("", "", "need the role of an approver"),
        ("approver", "github", "knows nobody who signs in as you"),
        ("approver", "gitlab", "knows nobody who signs in as you"),
    ],
)
def test_who_may_not_approve_is_told_in_a_comment(posting_team: PostingTeam, forge, role, provider, reason) -> None:
    _link(posting_team, role, provider)
    run = _drift(posting_team, pull_request=5)
    for _ in range(2):
        assert _press(posting_team, run, _button(forge)) == DeliveryAnswer()
        posting_team.send()
    assert _count(posting_team) == 0
    refusals = [comment["body"] for comment in forge.comments if "pressed *Approve*" in comment["body"]]
    assert len(refusals) == 1
    assert reason in refusals[0]
    assert "@ada pressed *Approve* for [run 1](https://gate.example.org/runs/" in refusals[0]


def test_on_a_push_the_comment_is_on_the_commit(posting_team: PostingTeam, forge) -> None:
    run = _drift(posting_team)
    _press(posting_team, run, _button(forge))
    _press(posting_team, run, _button(forge), delivery="press-2")
    posting_team.send()
    assert [comment["commit_id"] for comment in forge.commit_comments] == [_A]
    assert "Nothing was approved" in forge.commit_comments[0]["body"]


def test_other_files_than_were_shown_are_not_approved(posting_team: PostingTeam, forge) -> None:
    _link(posting_team)
    run = _drift(posting_team, pull_request=5)
    button = _button(forge)
    with posting_team.team.transactions() as session:
        keep_file(session, posting_team.team.store, run.id, "generated", "models/toy.py", b"evil", NOW)
    for digest in (button, "", button[:3]):
        assert _press(posting_team, run, digest, delivery=f"press {digest}") == DeliveryAnswer()
    posting_team.send()
    assert "no longer those that were shown" in forge.comments[-1]["body"]
    assert _count(posting_team) == 0


def test_a_branch_that_has_moved_on_is_not_approved(posting_team: PostingTeam, forge) -> None:
    _link(posting_team)
    run = _drift(posting_team, pull_request=5)
    button = _button(forge)
    posting_team.team.begin(_B, "fix", pull_request=5, before=_A)
    assert _press(posting_team, run, button) == DeliveryAnswer()
    posting_team.send()
    assert "run 2 is for a newer commit of 'fix'" in forge.comments[-1]["body"]


@pytest.mark.parametrize("run_id", ["", "1-1-0", "'; DROP TABLE run;--"])
def test_the_button_of_an_unknown_run_does_nothing(posting_team: PostingTeam, forge, run_id: str) -> None:
    _link(posting_team)
    _drift(posting_team, pull_request=5)
    delivery = Delivery("d", "approve", run=run_id, approves=_button(forge), actor="ada", actor_id="42")
    assert _deliver(posting_team, delivery) == DeliveryAnswer()
    assert posting_team.send() == 0


def test_the_button_of_another_repositorys_run_does_nothing(posting_team: PostingTeam, forge, make_repository) -> None:
    _link(posting_team)
    run = _drift(posting_team, pull_request=5)
    with posting_team.team.transactions() as session:
        other = make_repository(session, "mallory/models", forge="github", forge_url=forge.url)
        set_role(session, find_person(session, "ada"), other, "admin", "tests", NOW)
        delivery = Delivery("d", "approve", run=run.id, approves=_button(forge), actor="ada", actor_id="42")
        assert answer_delivery(session, other, delivery, URL, NOW) == DeliveryAnswer()
    assert _count(posting_team) == 0


def test_a_fork_stays_a_fork_when_it_is_run_again(posting_team: PostingTeam) -> None:
    fork = {"branch": "bob:main", "base": "main", "pull_request": 5, "is_fork": True}
    first = posting_team.team.run(_A, **fork)  # type: ignore[arg-type]
    delivery = Delivery("again", "rerun", "main", _B, run=first.id, actor="bob")
    answers = [_deliver(posting_team, delivery) for _ in range(2)]
    assert answers[0] == answers[1]
    with posting_team.team.transactions() as session:
        run = session.get_one(Run, answers[0].run)
        assert (run.branch, run.sha, run.pull_request, run.is_fork) == ("bob:main", _A, 5, True)
    assert _deliver(posting_team, delivery, delivery="more", run="") == DeliveryAnswer()


def test_a_closed_pull_request_cancels_its_unfinished_runs(posting_team: PostingTeam, forge) -> None:
    team = posting_team.team
    ended = team.run(_A, branch="fix", pull_request=5)
    waiting = team.begin(_B, "fix", pull_request=5, before=_A)
    others = [team.begin(_B, "fix"), team.begin(_B, "fix", pull_request=6)]
    closed = Delivery("closed", "closed", "fix", _B, pull_request=5, actor="bob")
    assert _deliver(posting_team, closed).cancelled == (waiting.id,)
    assert _deliver(posting_team, closed).cancelled == ()
    assert (team.read(waiting).status, team.read(waiting).message) == ("cancelled", "pull request 5 was closed")
    assert [team.read(run).status for run in (ended, *others)] == ["passed", "pending", "pending"]
    posting_team.queue(waiting)
    posting_team.send()
    assert forge.statuses[-1]["state"] == "error"
    assert "pull request 5 was closed" in forge.statuses[-1]["description"]


def test_a_late_word_of_an_earlier_end_cancels_nothing_of_a_pull_request_that_was_opened_again(
    posting_team: PostingTeam,
) -> None:
    closed = Delivery("closed", "closed", "fix", _B, pull_request=5, happened="2026-11-23T08:00:00+00:00")
    opened = replace(closed, delivery="opened", kind="pull_request", happened="2026-11-23T07:00:00+00:00")
    again = replace(closed, delivery="again", kind="pull_request", happened="2026-11-23T09:00:00+00:00")
    run = ""
    for delivery in (opened, again):
        with posting_team.team.transactions() as session:
            store_deliveries(session, [NewDelivery(1, delivery.delivery, asdict(delivery))], NOW)
        run = _deliver(posting_team, delivery).run
    assert _deliver(posting_team, closed).cancelled == ()
    at_last = _deliver(posting_team, closed, delivery="at last", happened="2026-11-23T10:00:00+00:00")
    assert at_last.cancelled == (run,)


def test_a_deleted_branch_cancels_its_unfinished_runs_and_no_later_ones(posting_team: PostingTeam) -> None:
    team = posting_team.team
    of_fork = team.begin(_A, "fix", is_fork=True, pull_request=7)
    waiting = team.begin(_A, "fix")
    deleted = Delivery("deleted", "closed", "fix", before=_A, actor="bob")
    assert _deliver(posting_team, deleted).cancelled == (waiting.id,)
    assert team.read(waiting).message == "the branch was deleted"
    again = team.begin(_B, "fix")
    assert _deliver(posting_team, deleted, delivery="late").cancelled == ()
    assert [team.read(run).status for run in (of_fork, again)] == ["pending", "pending"]


@pytest.mark.parametrize("actor", ["<img src=x onerror=alert(1)>", "'; DROP TABLE run;--", "x\n# y", "everyone @all"])
def test_whoever_presses_is_shown_as_they_are(posting_team: PostingTeam, forge, actor: str) -> None:
    run = _drift(posting_team, pull_request=5)
    _press(posting_team, run, _button(forge), actor=actor)
    forge.faults = [Fault(500), Fault(429)]
    posting_team.send()
    posting_team.send(1)
    posting_team.send(5)
    assert forge.comments[-1]["body"].splitlines()[1].startswith("Somebody pressed")
