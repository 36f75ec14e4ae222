"""Approvals: of exactly the files that were shown, once, and never of what has moved on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from service_samples import NOW
from service_team import Team
from sqlalchemy import func, select

from patchgen_service.database.tables import Approval, AuditEntry, Person, Run
from patchgen_service.records.approvals import (
    ApprovalRefused,
    RegeneratedFile,
    approve,
    digest_regenerated,
    end_approval,
    regenerated_files,
)
from patchgen_service.records.files import keep_file


def drifted(team: Team, sha: str = "a" * 40, **cause: object) -> tuple[Run, str]:
    """A drifted run with two regenerated files, and the digest that a page shows."""
    run = team.run(sha, {"drift": "drifted"}, **cause)  # type: ignore[arg-type]
    with team.transactions() as session:
        keep_file(session, team.store, run.id, "generated", "models/toy.py", b"new", NOW)
        keep_file(session, team.store, run.id, "removed", "models/gone.py", b"", NOW)
        return run, digest_regenerated(session, run.id)


def people(team: Team) -> list[Person]:
    with team.transactions() as session:
        session.add_all(persons := [Person(name=name, created=NOW) for name in ("ada", "bob")])
    return persons


def give(team: Team, run: Run, person: Person, digest: str) -> Approval:
    with team.transactions() as session:
        return approve(session, run.id, person, digest, NOW)


def test_two_approvals_at_once_are_one(team: Team) -> None:
    run, digest = drifted(team)
    persons = people(team)
    with ThreadPoolExecutor(8) as pool:
        approvals = list(pool.map(lambda number: give(team, run, persons[number % 2], digest), range(8)))
    assert len({approval.id for approval in approvals}) == len({approval.person_id for approval in approvals}) == 1
    with team.transactions() as session:
        actions = session.execute(select(AuditEntry.action, func.count()).group_by(AuditEntry.action)).all()
    assert [tuple(action) for action in actions] == [("run.approve", 1)]


def test_what_is_approved_is_what_would_change(team: Team) -> None:
    run, digest = drifted(team)
    with team.transactions() as session:
        removed, generated = regenerated_files(session, run.id)
        assert removed == RegeneratedFile("models/gone.py", None)
        assert generated.digest is not None
        assert team.store.get(generated.digest) == b"new"
        keep_file(session, team.store, run.id, "generated", "models/toy.py", b"newer", NOW)
    with pytest.raises(ApprovalRefused, match="no longer those that were shown"):
        give(team, run, people(team)[0], digest)


def test_an_approval_comes_to_one_end(sqlite_team: Team) -> None:
    run, digest = drifted(sqlite_team)
    ada, bob = people(sqlite_team)
    approval = give(sqlite_team, run, ada, digest)
    with sqlite_team.transactions() as session:
        end_approval(session, approval.id, "committed", NOW, sha="c" * 40)
    with sqlite_team.transactions() as session:
        end_approval(session, approval.id, "refused", NOW, message="too late")
    again = give(sqlite_team, run, bob, digest)
    assert (again.state, again.sha, again.person_id) == ("committed", "c" * 40, ada.id)


def test_what_was_refused_can_be_approved_again(sqlite_team: Team) -> None:
    run, digest = drifted(sqlite_team)
    ada, bob = people(sqlite_team)
    approval = give(sqlite_team, run, ada, digest)
    with sqlite_team.transactions() as session:
        end_approval(session, approval.id, "refused", NOW, message="the forge does not answer")
    again = give(sqlite_team, run, bob, digest)
    assert (again.id, again.state, again.message, again.person_id) == (approval.id, "pending", "", bob.id)


@pytest.mark.parametrize("newer", ["b", "a"])
def test_a_run_of_a_branch_that_has_moved_on_cannot_be_approved(sqlite_team: Team, newer: str) -> None:
    run, digest = drifted(sqlite_team)
    other, _ = drifted(sqlite_team, "c" * 40, branch="topic")
    sqlite_team.begin(newer * 40, kind="manual")
    ada = people(sqlite_team)[0]
    if newer == "a":
        assert give(sqlite_team, run, ada, digest).state == "pending"
    else:
        with pytest.raises(ApprovalRefused, match="run 3 is for a newer commit of 'main'"):
            give(sqlite_team, run, ada, digest)
    assert give(sqlite_team, other, ada, digest).state == "pending"


def test_a_run_without_regenerated_files_or_that_goes_on_cannot_be_approved(sqlite_team: Team) -> None:
    ada = people(sqlite_team)[0]
    clean = sqlite_team.run("a" * 40)
    with pytest.raises(ApprovalRefused, match="run 1 has no regenerated files"):
        give(sqlite_team, clean, ada, "")
    running = sqlite_team.begin("b" * 40)
    with pytest.raises(ApprovalRefused, match="run 2 is pending: only a complete run can be approved"):
        give(sqlite_team, running, ada, "")
