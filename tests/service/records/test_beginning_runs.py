"""A run begins once for what it is caused by, and takes the place of older ones of its branch."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from service_samples import NOW
from service_team import Team
from sqlalchemy import func, select
from sqlalchemy.orm import aliased

from patchgen_service.database.tables import AuditEntry, Commit, Repository, Run, Trigger
from patchgen_service.records.new_runs import RunCause, begin_run, begin_runs
from patchgen_service.records.runs import (
    RunEnded,
    cancel_run,
    expect_items,
    find_run_by_token,
    hear_from_run,
    make_run_token,
    silent_runs,
    superseded_runs,
)


def test_a_run_is_pending_at_once_and_has_a_number(team: Team) -> None:
    first = team.begin("a" * 40, actor="ada", subject="Add a model")
    second = team.begin("b" * 40)
    assert (first.status, first.number, second.number) == ("pending", 1, 2)
    with team.transactions() as session:
        commit = session.get_one(Commit, first.commit_id)
        assert (commit.sha, commit.subject) == ("a" * 40, "Add a model")


def test_a_delivery_that_comes_again_is_the_run_that_it_was(team: Team) -> None:
    first = team.begin("a" * 40, delivery="one")
    team.end(team.read(first))
    again = team.begin("a" * 40, delivery="one")
    assert again.id == first.id
    with team.transactions() as session:
        assert session.scalar(select(func.count(Run.id))) == session.scalar(select(func.count(Trigger.id))) == 1


def test_of_a_delivery_that_comes_many_times_at_once_one_begins_a_run(team: Team) -> None:
    def deliver(number: int) -> str:
        with team.transactions() as session:
            cause = RunCause("webhook", f"delivery {number % 2}", "main", "ab"[number % 2] * 40)
            return begin_run(session, team.repository(session), cause, NOW).id

    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(deliver, range(16)))
    assert len(set(runs[::2])) == len(set(runs[1::2])) == 1
    with team.transactions() as session:
        assert sorted(session.scalars(select(Run.number))) == [1, 2]


def test_a_newer_push_takes_the_place_of_unfinished_runs_of_its_branch_alone(team: Team) -> None:
    runs = {
        "older": team.begin("a" * 40),
        "other branch": team.begin("a" * 40, "next"),
        "pull request": team.begin("a" * 40, pull_request=7),
        "fork's branch of that name": team.begin("a" * 40, is_fork=True, pull_request=8),
        "by hand": team.begin("a" * 40, kind="manual"),
        "by a CI job": team.begin("a" * 40, kind="push"),
        "other release": team.begin("a" * 40, kind="release", transformers="5.24.0"),
    }
    newer = team.begin("b" * 40)
    states = {name: team.read(run).status for name, run in runs.items()}
    assert states == {**dict.fromkeys(runs, "pending"), "older": "superseded"}
    older = team.read(runs["older"])
    assert older.superseded_by == newer.id
    assert older.ended is not None
    assert older.message == "run 8 is for a newer commit of 'main'"
    with team.transactions() as session:
        assert [run.id for run in superseded_runs(session, newer.id)] == [older.id]


def test_a_run_that_has_ended_is_not_superseded(sqlite_team: Team) -> None:
    older = sqlite_team.run("a" * 40)
    sqlite_team.begin("b" * 40)
    assert sqlite_team.read(older).status == "passed"


def test_a_schedule_takes_no_run_away(sqlite_team: Team) -> None:
    older = sqlite_team.begin("a" * 40)
    sqlite_team.begin("a" * 40, kind="schedule")
    assert sqlite_team.read(older).status == "pending"


def test_what_tells_of_the_same_commit_joins_the_run_that_is_there(team: Team) -> None:
    first = team.begin("a" * 40)
    assert team.begin("a" * 40, kind="poll", delivery="poll").id == first.id
    assert team.begin("a" * 40, kind="poll", delivery="poll").id == first.id
    team.begin("b" * 40)
    back = team.begin("a" * 40, before="b" * 40)
    assert back.id != first.id
    assert team.begin("a" * 40, kind="poll", delivery="poll").id == first.id
    assert [team.read(run).status for run in (first, back)] == ["superseded", "pending"]


@pytest.mark.parametrize("status", ["cancelled", "infrastructure_error"])
def test_a_run_without_an_answer_is_not_joined(sqlite_team: Team, status: str) -> None:
    team = sqlite_team
    first = team.begin("a" * 40)
    with team.transactions() as session:
        if status == "cancelled":
            cancel_run(session, first.id, "ada", NOW)
    if status != "cancelled":
        team.end(first)
    assert team.read(first).status == status
    assert team.begin("a" * 40, kind="poll").id != first.id


def test_a_delivery_that_comes_late_does_not_take_the_place_of_a_later_push(team: Team) -> None:
    team.begin("a" * 40)
    last = team.begin("d" * 40, before="c" * 40)
    team.begin("c" * 40, before="b" * 40)
    late = team.begin("b" * 40, before="a" * 40)
    assert (team.read(last).status, team.read(late).status) == ("pending", "superseded")
    assert late.superseded_by == last.id


def test_a_branch_that_is_forced_back_and_forth_runs_each_time(sqlite_team: Team) -> None:
    shas = ["a" * 40, "b" * 40, "a" * 40, "b" * 40]
    runs = [sqlite_team.begin(sha, before=before) for sha, before in zip(shas, ["", *shas])]
    assert [sqlite_team.read(run).status for run in runs] == ["superseded"] * 3 + ["pending"]


def _random_causes(seed: int) -> list[RunCause]:
    """Deliveries of a few branches, some out of order, told twice, or of commits that were there before."""
    chance = random.Random(seed)
    causes = []
    for number in range(40):
        sha, before = (chance.choice("abcdef") * 40 for _ in range(2))
        kind = chance.choice(("webhook", "webhook", "webhook", "poll", "schedule", "manual", "push"))
        branch, pull_request = chance.choice((("main", 0), ("next", 0), ("next", 7), ("bob:main", 8)))
        delivery = f"{kind} {chance.choice((number, number, number // 2))}"
        fields = {"before": before * chance.choice((0, 1)), "subject": chance.choice(("", "Change"))}
        causes.append(
            RunCause(kind, delivery, branch, sha, pull_request=pull_request, is_fork=bool(":" in branch), **fields)
        )
    return causes


def _begin_in_parts(team: Team, repository_id: int, parts: Iterable[Sequence[RunCause]]) -> list[int]:
    """The numbers of the runs of all causes, begun a part at a time; after each ten, some pass."""
    numbers: list[int] = []
    for part in parts:
        with team.transactions() as session:
            repository = session.get_one(Repository, repository_id)
            numbers += [run.number for run in begin_runs(session, repository, part, NOW)]
            if len(numbers) % 10 == 0:
                pending = select(Run).where(Run.repository_id == repository_id, Run.status == "pending")
                for run in session.scalars(pending.where(Run.number % 3 == 0)):
                    run.status = "passed"
    return numbers


def _read_history(team: Team, repository_id: int) -> list[tuple[object, ...]]:
    """What is remembered of the runs and commits of a repository, in which no other's ids are."""
    newer = aliased(Run)
    columns = (
        Run.number,
        Run.status,
        Run.sha,
        Run.branch,
        Run.message,
        newer.number,
        Trigger.delivery,
        Commit.subject,
    )
    runs = select(*columns).outerjoin(newer, newer.id == Run.superseded_by).where(Run.repository_id == repository_id)
    runs = runs.join(Trigger, Trigger.id == Run.trigger_id).join(Commit, Commit.id == Run.commit_id)
    joined = select(Trigger.delivery, Run.number).join(Run, Run.id == Trigger.joined)
    with team.transactions() as session:
        rows = session.execute(runs.order_by(Run.number)).all()
        rows += session.execute(joined.where(Run.repository_id == repository_id).order_by(Trigger.id)).all()
        return [tuple(row) for row in rows]


@pytest.mark.parametrize("seed", range(2))
def test_runs_begun_together_are_those_begun_one_after_the_other(
    sqlite_team: Team, make_repository: Callable[..., Repository], seed: int
) -> None:
    causes, histories = _random_causes(seed), []
    for size in (1, 10):
        with sqlite_team.transactions() as session:
            repository_id = make_repository(session, f"acme/{size}").id
        parts = [causes[start : start + size] for start in range(0, len(causes), size)]
        numbers = _begin_in_parts(sqlite_team, repository_id, parts)
        histories.append((numbers, _read_history(sqlite_team, repository_id)))
    assert histories[0] == histories[1]
    assert {"superseded", "pending", "passed"} == {row[1] for row in histories[0][1] if len(row) > 2}


def test_a_clock_that_jumps_back_does_not_change_the_order_of_runs(sqlite_team: Team) -> None:
    older = sqlite_team.begin("a" * 40)
    sqlite_team.now = NOW - timedelta(days=400)
    newer = sqlite_team.begin("b" * 40)
    assert (sqlite_team.read(older).status, newer.number) == ("superseded", 2)
    sqlite_team.now = NOW - timedelta(days=800)
    ended = sqlite_team.end(sqlite_team.read(newer))
    assert ended.ended is not None
    assert ended.ended >= ended.created


def test_a_transaction_that_dies_halfway_leaves_nothing(team: Team) -> None:
    older = team.begin("a" * 40)

    def begin_and_die() -> None:
        with team.transactions() as session:
            begin_run(session, team.repository(session), RunCause("webhook", "x", "main", "b" * 40), NOW)
            raise RuntimeError("the power is gone")

    with pytest.raises(RuntimeError, match="power"):
        begin_and_die()
    assert team.read(older).status == "pending"
    again = team.begin("b" * 40, delivery="x")
    assert (again.number, again.status) == (2, "pending")


def test_names_that_are_sql_and_html_stay_what_they_are(team: Team) -> None:
    branch = "main'; DROP TABLE run; -- <script>alert(1)</script> \u202e ∞"
    run = team.begin("a" * 40, branch, actor="<b>ada</b>", subject="\"'`; DELETE FROM result")
    assert team.read(run).branch == branch


def test_a_text_that_is_too_long_is_refused(sqlite_team: Team) -> None:
    with pytest.raises(ValueError, match="the branch of a run has at most 500 characters"):
        sqlite_team.begin("a" * 40, "b" * 501)


def test_a_token_of_a_run_is_good_until_the_run_ends(sqlite_team: Team) -> None:
    run = sqlite_team.begin("a" * 40)
    with sqlite_team.transactions() as session:
        old = make_run_token(session, run.id)
        token = make_run_token(session, run.id)
        assert token not in session.get_one(Run, run.id).token
    with sqlite_team.transactions() as session:
        assert find_run_by_token(session, old) is None
        assert find_run_by_token(session, "") is None
        found = find_run_by_token(session, token)
        assert found is not None
        assert found.id == run.id
    sqlite_team.end(run)
    with sqlite_team.transactions() as session:
        assert find_run_by_token(session, token) is None
        assert find_run_by_token(session, "") is None


def test_cancelling_ends_an_unfinished_run_once_and_is_audited(sqlite_team: Team) -> None:
    run = sqlite_team.begin("a" * 40)
    with sqlite_team.transactions() as session:
        cancel_run(session, run.id, "ada", NOW)
    with sqlite_team.transactions() as session:
        cancel_run(session, run.id, "bob", NOW)
        assert [entry.actor for entry in session.scalars(select(AuditEntry))] == ["ada"]
    with pytest.raises(RunEnded, match="run 1 has ended: cancelled"), sqlite_team.transactions() as session:
        hear_from_run(session, run.id, NOW)
    assert sqlite_team.end(run).message == "cancelled by ada"


def test_expected_items_of_projects_are_counted_once(sqlite_team: Team) -> None:
    run = sqlite_team.begin("a" * 40)
    with sqlite_team.transactions() as session:
        for project, count in (("one", 3), ("two", 4), ("one", 3)):
            expect_items(session, run.id, project, count)
    assert sqlite_team.read(run).expected == 7


def test_runs_that_are_not_heard_of_are_known(sqlite_team: Team) -> None:
    team = sqlite_team
    silent, alive, pushed = (team.begin("a" * 40, branch) for branch in ("one", "two", "three"))
    team.begin("a" * 40, "waits to be carried out")
    team.start(silent)
    team.start(alive)
    ended = team.run("a" * 40, branch="four")
    later = team.now + timedelta(hours=2)
    with team.transactions() as session:
        hear_from_run(session, alive.id, later)
        make_run_token(session, pushed.id)
        quiet = [run.id for run in silent_runs(session, later - timedelta(minutes=30))]
    assert quiet == [silent.id, pushed.id]
    assert ended.id not in quiet
