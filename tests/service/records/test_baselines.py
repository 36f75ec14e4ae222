"""Which run another is compared with, why, and what is new, known or fixed beside it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from service_samples import NOW, make_result
from service_team import Team, results_of
from sqlalchemy import select

from patchgen_service.database.tables import Approval, Person, Run
from patchgen_service.records.baselines import choose_baseline
from patchgen_service.records.changes import set_changes


@dataclass
class History:
    """Commits named by one letter, each with its parents."""

    parents: dict[str, str] = field(default_factory=dict)

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether a commit is another or comes before it."""
        return older[0] == newer[0] or any(
            self.is_ancestor(older, parent) for parent in self.parents.get(newer[0], "")
        )


LINE = History({"b": "a", "c": "b", "d": "c", "x": "b", "y": "x"})
"""main is a, b, c, d; a branch leaves it at b with x, y."""


def choose(team: Team, run: Run, merge_base: str = "", history: History | None = LINE) -> tuple[Run, dict[str, str]]:
    """Choose the baseline of a run; returns it and the change of each item."""
    with team.transactions() as session:
        test = history.is_ancestor if history is not None else None
        chosen = choose_baseline(session, run.id, merge_base, test)
    return chosen, {item: result.change for item, result in team.results(run).items()}


def sha(letter: str) -> str:
    return letter * 40


def test_a_pull_request_is_compared_with_the_newest_passed_run_at_its_merge_base(team: Team) -> None:
    team.run(sha("a"))
    base = team.run(sha("b"), {"drift": "clean", "parity": "clean"})
    team.run(sha("c"), {"drift": "drifted"})
    run = team.run(sha("x"), {"drift": "drifted", "parity": "clean"}, "topic", pull_request=7, base="main")
    chosen, changes = choose(team, run, sha("b"))
    assert chosen.baseline_id == base.id
    assert chosen.previous_id is None
    assert chosen.baseline_reason == (
        "run 2 (bbbbbbb) is the newest passed run of 'main' at or before bbbbbbb, "
        "where this pull request leaves 'main'"
    )
    assert changes == {"drift": "new", "parity": ""}


def test_what_is_red_where_a_pull_request_begins_is_known_and_can_be_fixed(sqlite_team: Team) -> None:
    passed = sqlite_team.run(sha("a"), {"drift": "clean", "parity": "clean", "contract": "clean"})
    red = sqlite_team.run(sha("b"), {"drift": "drifted", "parity": "failed", "contract": "clean"})
    run = sqlite_team.run(
        sha("x"), {"drift": "drifted", "parity": "clean", "contract": "failed"}, "topic", pull_request=7
    )
    chosen, changes = choose(sqlite_team, run, sha("b"))
    assert (chosen.baseline_id, chosen.previous_id) == (passed.id, red.id)
    assert chosen.baseline_reason == (
        "run 1 (aaaaaaa) is the newest passed run of 'main' at or before bbbbbbb, where this pull request leaves "
        "'main'; what was red in run 2 (bbbbbbb), which is nearer, is known"
    )
    assert changes == {"drift": "known", "parity": "fixed", "contract": "new"}


def test_an_approved_drift_is_a_baseline(sqlite_team: Team) -> None:
    sqlite_team.run(sha("a"))
    drifted = sqlite_team.run(sha("b"), {"drift": "drifted"})
    with sqlite_team.transactions() as session:
        person = Person(name="ada", created=NOW)
        session.add(person)
        session.flush()
        approval = Approval(run_id=drifted.id, person_id=person.id, digest="d", created=NOW, state="refused")
        session.add(approval)
    run = sqlite_team.run(sha("c"), {"drift": "drifted"})
    assert choose(sqlite_team, run)[0].baseline_reason.startswith("run 1 (aaaaaaa) is the newest passed run")
    with sqlite_team.transactions() as session:
        session.scalars(select(Approval)).one().state = "committed"
    chosen, changes = choose(sqlite_team, run)
    assert chosen.baseline_reason == "run 2 (bbbbbbb) is the newest approved run of 'main' before ccccccc"
    assert changes == {"drift": "known"}


def test_a_broken_run_is_no_baseline_even_when_its_files_were_approved(sqlite_team: Team) -> None:
    broken = sqlite_team.run(sha("b"), {"drift": "drifted", "parity": "failed"})
    with sqlite_team.transactions() as session:
        session.add(person := Person(name="ada", created=NOW))
        session.flush()
        session.add(Approval(run_id=broken.id, person_id=person.id, digest="d", created=NOW, state="committed"))
    chosen, _ = choose(sqlite_team, sqlite_team.run(sha("c")))
    assert chosen.baseline_id is None
    assert chosen.previous_id == broken.id
    assert chosen.baseline_reason == (
        "no run of 'main' before ccccccc passed or was approved; "
        "what was red in run 1 (bbbbbbb), which is nearer, is known"
    )


def test_the_nearest_commit_counts_not_the_last_run(team: Team) -> None:
    near = team.run(sha("b"))
    team.run(sha("a"), kind="manual")
    assert choose(team, team.run(sha("c")))[0].baseline_id == near.id


@pytest.mark.mostly_slow(1)
def test_runs_after_the_merge_base_or_of_other_branches_are_no_baseline(team: Team) -> None:
    team.run(sha("c"))
    team.run(sha("b"), branch="other")
    team.run(sha("b"), branch="main", pull_request=3)
    team.run(sha("b"), branch="main", is_fork=True, pull_request=4)
    run = team.run(sha("x"), {"drift": "drifted"}, "topic", pull_request=7)
    chosen, changes = choose(team, run, sha("b"))
    assert (chosen.baseline_id, chosen.previous_id) == (None, None)
    assert chosen.baseline_reason.startswith("no run of 'main' at or before bbbbbbb")
    assert changes == {"drift": ""}


def test_incomplete_and_flaky_runs_are_no_baseline(sqlite_team: Team) -> None:
    passed = sqlite_team.run(sha("a"))
    cancelled = sqlite_team.begin(sha("b"))
    sqlite_team.add(cancelled, make_result(status="drifted"))
    sqlite_team.end(cancelled)
    with sqlite_team.transactions() as session:
        session.get_one(Run, cancelled.id).status = "timed_out"
    chosen, changes = choose(sqlite_team, sqlite_team.run(sha("c"), {"drift": "drifted"}))
    assert (chosen.baseline_id, chosen.previous_id) == (passed.id, None)
    assert changes == {"drift": "new"}


def test_a_second_run_of_a_commit_is_compared_with_the_commit_before_as_well(sqlite_team: Team) -> None:
    before = sqlite_team.run(sha("a"))
    sqlite_team.run(sha("b"), {"drift": "drifted"})
    again = sqlite_team.run(sha("b"), {"drift": "drifted"}, kind="manual")
    chosen, changes = choose(sqlite_team, again)
    assert chosen.baseline_id == before.id
    assert changes == {"drift": "new"}


def test_a_pull_request_to_another_branch_is_compared_with_that(sqlite_team: Team) -> None:
    sqlite_team.run(sha("b"))
    release = sqlite_team.run(sha("b"), branch="release/2")
    run = sqlite_team.run(sha("x"), branch="topic", pull_request=7, base="release/2")
    assert choose(sqlite_team, run, sha("b"))[0].baseline_id == release.id


def test_a_push_to_a_branch_is_compared_with_its_own_runs_and_those_of_the_default_branch(sqlite_team: Team) -> None:
    default = sqlite_team.run(sha("b"))
    first = sqlite_team.run(sha("x"), branch="topic")
    assert choose(sqlite_team, first)[0].baseline_id == default.id
    second = sqlite_team.run(sha("y"), branch="topic")
    assert choose(sqlite_team, second)[0].baseline_id == first.id


def test_another_release_is_compared_with_the_one_that_the_commit_has(sqlite_team: Team) -> None:
    own = sqlite_team.run(sha("b"), {"drift": "clean", "parity": "failed"})
    passed = sqlite_team.run(sha("a"), {"drift": "clean", "parity": "clean"})
    first = sqlite_team.run(sha("b"), {"drift": "drifted", "parity": "failed"}, kind="release", transformers="5.24.0")
    chosen, changes = choose(sqlite_team, first)
    assert chosen.baseline_id == passed.id
    assert own.status == "broken"
    assert chosen.previous_id == own.id
    assert changes == {"drift": "new", "parity": "known"}


def test_unrelated_histories_have_no_baseline(sqlite_team: Team) -> None:
    sqlite_team.run(sha("a"))
    run = sqlite_team.run(sha("z"), {"drift": "drifted"}, "topic", pull_request=7)
    chosen, changes = choose(sqlite_team, run, "")
    assert chosen.baseline_reason == "none: this pull request and 'main' have no commit in common"
    assert changes == {"drift": ""}


def test_without_the_repository_the_newest_run_is_taken_and_said_to_be(sqlite_team: Team) -> None:
    newest = sqlite_team.run(sha("c"))
    run = sqlite_team.run(sha("x"), {"drift": "drifted"}, "topic", pull_request=7, kind="push")
    chosen, changes = choose(sqlite_team, run, "", None)
    assert chosen.baseline_id == newest.id
    assert chosen.baseline_reason == (
        "run 1 (ccccccc) is the newest passed run of 'main'; which commits come before this one is not known here"
    )
    assert changes == {"drift": "new"}


def test_results_that_come_after_the_baseline_was_chosen_are_set_beside_it_at_once(team: Team) -> None:
    statuses = {"drift": "drifted", "parity": "clean", "contract": "failed", "plan": "clean"}
    team.run(sha("a"))
    team.run(sha("b"), statuses)
    run = team.begin(sha("c"))
    team.start(run)
    choose(team, run)
    team.add(run, *results_of({"drift": "drifted", "parity": "failed", "contract": "clean", "plan": "skipped"}))
    arrived = {item: result.change for item, result in team.results(run).items()}
    assert arrived == {"drift": "known", "parity": "new", "contract": "fixed", "plan": ""}
    with team.transactions() as session:
        set_changes(session, session.get_one(Run, run.id))
    assert {item: result.change for item, result in team.results(run).items()} == arrived


def test_a_check_that_the_nearest_run_lacks_is_compared_with_the_baseline(sqlite_team: Team) -> None:
    sqlite_team.run(sha("a"), {"drift": "clean", "parity": "clean"})
    sqlite_team.run(sha("b"), {"drift": "drifted"})
    _, changes = choose(sqlite_team, sqlite_team.run(sha("c"), {"drift": "drifted", "parity": "failed"}))
    assert changes == {"drift": "known", "parity": "new"}


def test_what_was_red_in_an_approved_run_and_green_nearer_is_new(sqlite_team: Team) -> None:
    team = sqlite_team
    drifted = team.run(sha("a"), {"drift": "drifted", "parity": "clean"})
    with team.transactions() as session:
        session.add(person := Person(name="ada", created=NOW))
        session.flush()
        session.add(Approval(run_id=drifted.id, person_id=person.id, digest="d", created=NOW, state="committed"))
    nearer = team.run(sha("b"), {"drift": "clean", "parity": "failed"})
    chosen, changes = choose(team, team.run(sha("c"), {"drift": "drifted", "parity": "clean"}))
    assert (chosen.baseline_id, chosen.previous_id) == (drifted.id, nearer.id)
    assert changes == {"drift": "new", "parity": "fixed"}
