"""What is old goes, with its rows and its bytes; what something still refers to stays."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from service_samples import NOW, make_result
from service_team import Team
from sqlalchemy import func, select

from patchgen_service.database.tables import (
    Approval,
    Artifact,
    ArtifactUse,
    AuditEntry,
    Base,
    Commit,
    Environment,
    PeriodicTask,
    Person,
    Post,
    Repository,
    Result,
    Run,
    Trigger,
    WebhookDelivery,
    WebSession,
)
from patchgen_service.records.baselines import choose_baseline
from patchgen_service.records.files import keep_file, sweep_files
from patchgen_service.records.posts import queue_post
from patchgen_service.records.retention import Removal, clean_up, move_on, remove_old
from patchgen_service.settings import Retention, ServiceSettings

LATER = NOW + timedelta(days=1000)
SETTINGS = ServiceSettings(Path(), retention=Retention(newest=1))


def remove(
    team: Team, now: datetime = LATER, settings: ServiceSettings = SETTINGS, is_used_to: bool = True
) -> Removal:
    """Remove what is old, as a service that has done so every day."""
    with team.transactions() as session:
        task = session.get(PeriodicTask, "day of retention")
        if is_used_to:
            session.add(PeriodicTask(name="day of retention", done=now)) if task is None else setattr(
                task, "done", now
            )
    with team.transactions() as session:
        return remove_old(session, team.store, settings, move_on(session, now))


def counts(team: Team) -> dict[str, int]:
    with team.transactions() as session:
        tables = {table.__tablename__: table for table in (Run, Result, Trigger, Commit, Artifact, ArtifactUse)}
        return {name: session.scalar(select(func.count()).select_from(table)) or 0 for name, table in tables.items()}


def numbers(team: Team) -> list[int]:
    with team.transactions() as session:
        return list(session.scalars(select(Run.number).order_by(Run.number)))


def test_old_runs_go_with_all_that_is_theirs(team: Team) -> None:
    for letter in "abcd":
        team.run(letter * 40, {"drift": "clean", "parity": "clean"})
    size = sum(path.stat().st_size for path in team.store.folder.glob("*/*"))
    removal = remove(team)
    assert (removal.runs, removal.is_done) == (3, True)
    assert 0 < removal.bytes < size or removal.bytes == 0
    assert counts(team) == {"run": 1, "result": 2, "trigger": 1, "commit": 1, "artifact": 1, "artifact_use": 1}
    assert numbers(team) == [4]
    assert str(remove(team)) == "nothing"


def test_young_runs_stay_and_for_ever_is_for_ever(sqlite_team: Team) -> None:
    for letter in "abc":
        sqlite_team.run(letter * 40)
    assert remove(sqlite_team, NOW + timedelta(days=300)).runs == 0
    forever = replace(SETTINGS, retention=Retention(runs=0, newest=1))
    assert remove(sqlite_team, settings=forever).runs == 0


def test_the_newest_runs_of_each_branch_stay(sqlite_team: Team) -> None:
    for letter in "abc":
        sqlite_team.run(letter * 40)
        sqlite_team.run(letter * 40, branch="topic")
    remove(sqlite_team, settings=replace(SETTINGS, retention=Retention(newest=2)))
    assert numbers(sqlite_team) == [3, 4, 5, 6]


def test_baselines_approvals_and_unfinished_runs_stay(team: Team) -> None:
    unfinished = team.begin("0" * 40, "stuck")
    team.begin("1" * 40, "stuck", kind="manual")
    passed = team.run("a" * 40)
    approved = team.run("b" * 40, {"drift": "drifted"})
    team.run("c" * 40, {"drift": "drifted"})
    team.run("d" * 40, {"drift": "drifted"})
    with team.transactions() as session:
        session.add(person := Person(name="ada", created=NOW))
        session.flush()
        session.add(Approval(run_id=approved.id, person_id=person.id, digest="d", created=NOW, state="refused"))
    remove(team)
    assert numbers(team) == [unfinished.number, 2, passed.number, approved.number, 6]


def test_what_a_young_run_is_compared_with_stays_and_what_old_ones_are_does_not(sqlite_team: Team) -> None:
    letters = "abcdef"
    for letter in letters:
        run = sqlite_team.run(letter * 40, {"drift": "drifted"})
        with sqlite_team.transactions() as session:
            choose_baseline(session, run.id, "", lambda older, newer: older <= newer)
    with sqlite_team.transactions() as session:
        for run in session.scalars(select(Run).where(Run.number >= 5)):
            run.created = LATER
    remove(sqlite_team)
    assert numbers(sqlite_team) == [4, 5, 6]


def test_kinds_go_after_their_own_times(sqlite_team: Team) -> None:
    run = sqlite_team.run("a" * 40)
    sqlite_team.run("b" * 40)
    with sqlite_team.transactions() as session:
        keep_file(session, sqlite_team.store, run.id, "generated", "a.py", os.urandom(1000), NOW)
        keep_file(session, sqlite_team.store, run.id, "log", "log", os.urandom(2000), NOW)
    assert remove(sqlite_team, NOW + timedelta(days=29)).files == 0
    logs = remove(sqlite_team, NOW + timedelta(days=31))
    assert (logs.files, logs.bytes) == (1, 2000)
    files = remove(sqlite_team, NOW + timedelta(days=91))
    assert (files.files, files.bytes) == (1, 1000)
    results = remove(sqlite_team, NOW + timedelta(days=181))
    assert (results.files, results.runs) == (1, 0)
    row = sqlite_team.results(run)["drift"]
    assert (row.status, row.data) == ("clean", "")


def test_a_file_that_another_run_uses_stays(sqlite_team: Team) -> None:
    old = sqlite_team.run("a" * 40)
    young = sqlite_team.run("b" * 40)
    with sqlite_team.transactions() as session:
        digest = ""
        for run in (old, young):
            digest = keep_file(session, sqlite_team.store, run.id, "log", "log", b"the same", NOW)
    assert remove(sqlite_team).runs == 1
    assert sqlite_team.store.get(digest) == b"the same"


def test_files_of_a_pending_approval_stay(sqlite_team: Team) -> None:
    run = sqlite_team.run("a" * 40, {"drift": "drifted"})
    sqlite_team.run("b" * 40)
    with sqlite_team.transactions() as session:
        digest = keep_file(session, sqlite_team.store, run.id, "generated", "a.py", b"new", NOW)
        session.add(person := Person(name="ada", created=NOW))
        session.flush()
        session.add(Approval(run_id=run.id, person_id=person.id, digest="d", created=NOW))
    remove(sqlite_team)
    assert sqlite_team.store.get(digest) == b"new"


def test_a_clock_that_jumps_ahead_does_not_empty_the_service(sqlite_team: Team) -> None:
    for letter in "abc":
        sqlite_team.run(letter * 40)
    assert remove(sqlite_team, NOW, is_used_to=False).runs == 0
    assert remove(sqlite_team, NOW + timedelta(days=3650), is_used_to=False).runs == 0
    assert remove(sqlite_team, NOW, is_used_to=False).runs == 0
    assert remove(sqlite_team, LATER).runs == 2


def test_however_many_steps_a_clock_that_jumps_ahead_moves_two_days(
    sqlite_team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchgen_service.records.retention.MOST_RUNS", 1)
    for number in range(8):
        sqlite_team.now = NOW + timedelta(days=number)
        sqlite_team.run(f"{number:040x}")
    with sqlite_team.transactions() as session:
        session.add(PeriodicTask(name="day of retention", done=NOW + timedelta(days=1)))
    settings = ServiceSettings(Path(), retention=Retention(newest=1, runs=1))
    clean_up(sqlite_team.transactions, sqlite_team.store, settings, LATER)
    with sqlite_team.transactions() as session:
        assert [(run.created - NOW).days for run in session.scalars(select(Run).order_by(Run.number))] == [
            *range(2, 8)
        ]


@pytest.mark.slow
def test_many_old_runs_go_in_several_steps(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchgen_service.records.retention.MOST_RUNS", 2)
    for letter in "abcd":
        team.run(letter * 40)
    removals = [remove(team) for _ in range(2)]
    assert [(removal.runs, removal.is_done) for removal in removals] == [(2, False), (1, True)]
    assert numbers(team) == [4]


@pytest.mark.slow
def test_cleaning_up_takes_as_many_steps_as_it_needs(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchgen_service.records.retention.MOST_RUNS", 2)
    for letter in "abcdef":
        team.run(letter * 40)
    with team.transactions() as session:
        session.add(PeriodicTask(name="day of retention", done=LATER))
    removal = clean_up(team.transactions, team.store, SETTINGS, LATER)
    assert (removal.runs, removal.is_done, numbers(team)) == (5, True, [6])


def test_posts_sessions_audit_and_environments_go(team: Team) -> None:
    old = team.run("a" * 40)
    run = team.run("b" * 40)
    with team.transactions() as session:
        for key, owner in (("one", old), ("two", run), ("three", run)):
            queue_post(session, 1, "comment", "comment 7", key, {}, NOW, owner).state = "sent"
        queue_post(session, 1, "status", "waits", "waits", {}, NOW)
        session.add(person := Person(name="ada", created=NOW))
        session.add(AuditEntry(at=NOW, actor="ada", action="run.cancel"))
        session.add(Environment(digest="unused", created=NOW, used=NOW))
        session.flush()
        session.add(WebSession(digest="s", person_id=person.id, created=NOW, expires=NOW))
        for name, handled in (("handled", NOW), ("waits", None)):
            session.add(WebhookDelivery(repository_id=1, delivery=name, received=NOW, handled=handled))
    removal = remove(team)
    assert (removal.posts, removal.audit, removal.sessions, removal.environments) == (2, 1, 1, 1)
    with team.transactions() as session:
        assert set(session.scalars(select(Post.key))) == {"three", "waits"}
        assert session.scalar(select(func.count(Environment.id))) == 1
        assert session.scalars(select(WebhookDelivery.delivery)).all() == ["waits"]


def test_a_file_that_is_stored_while_old_ones_are_swept_is_not_lost(team: Team) -> None:
    run = team.begin("a" * 40)
    with team.transactions() as session:
        orphan = team.store.put(b"stored by a transaction that died")
        sweep_files(session, team.store)
    assert not team.store.path(orphan).exists()
    team.add(run, make_result())
    with team.transactions() as session:
        assert sweep_files(session, team.store) == 0


def test_what_a_writer_that_died_has_left_goes_after_a_day(sqlite_team: Team) -> None:
    sqlite_team.add(sqlite_team.begin("a" * 40), make_result())
    folder = next(sqlite_team.store.folder.iterdir())
    for name, age in (("old", 2 * 86400), ("young", 60)):
        path = folder / f".new-{name}"
        path.write_bytes(b"half")
        os.utime(path, (time.time() - age,) * 2)
    with sqlite_team.transactions() as session:
        assert sweep_files(session, sqlite_team.store) == 4
    assert [path.name for path in folder.glob(".new-*")] == [".new-young"]


def test_a_repository_that_is_removed_takes_everything_along(team: Team) -> None:
    team.run("a" * 40)
    with team.transactions() as session:
        queue_post(session, 1, "comment", "comment 7", "one", {}, NOW)
        session.delete(session.scalars(select(Repository)).one())
    with team.transactions() as session:
        sweep_files(session, team.store)
        left = {
            name
            for name, table in Base.metadata.tables.items()
            if session.scalar(select(func.count()).select_from(table))
        }
    assert left == {"environment"}
    assert not list(team.store.digests())
