"""Results of a run: each is remembered once, none is lost, and the run ends as they say."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from service_samples import NOW, make_result
from service_team import Team, results_of
from sqlalchemy import func, select

from patchgen_core.build.results import Cause
from patchgen_core.checks.gate import Item, run_item
from patchgen_core.checks.result import CheckResult, FileDifference, pack
from patchgen_core.checks.session import Session as GateSession
from patchgen_core.checks.settings import Settings
from patchgen_core.errors import Problem
from patchgen_service.database.tables import Artifact, Result
from patchgen_service.records.machines import EnvironmentFacts
from patchgen_service.records.results import add_results, is_no_verdict, read_result
from patchgen_service.records.runs import RunEnded, RunProblem, cancel_run
from patchgen_service.store import Store, StoreError

OUT_OF_MEMORY = Problem("checking models.toy dies: its process has ended by SIGKILL, as when memory runs out")


def test_a_result_is_read_back_as_it_was_handed_in(team: Team) -> None:
    run = team.begin("a" * 40)
    problem = Problem("x is <not> 'y'; --", hint="h\u00e9")
    difference = FileDifference("models/toy.py", False, "-a\n+b\n", "-a\n")
    drifted = make_result(status="drifted", causes=(Cause("upstream moved", "in Norm"),), files=(difference,))
    failed = make_result(item="parity[eager]", status="failed", errors=(problem,), figures={"error": 0.5, "n": 3})
    assert team.add(run, drifted, failed) == 2
    rows = team.results(run)
    assert [read_result(team.store, rows[item]) for item in ("drift", "parity[eager]")] == [drifted, failed]
    row = rows["parity[eager]"]
    assert (row.check, row.config, row.path) == ("parity", "models.toy", "models/toy_patch_gen_config.py")
    assert (row.headline, row.figures, rows["drift"].causes) == (
        problem.title,
        {"error": 0.5, "n": 3},
        ["upstream moved"],
    )


def test_figures_that_are_no_numbers_are_kept(team: Team) -> None:
    run = team.begin("a" * 40)
    team.add(run, make_result(figures={"nan": math.nan, "inf": -math.inf}, seconds=math.inf))
    figures = team.results(run)["drift"].figures
    assert math.isnan(figures["nan"])
    assert figures["inf"] == -math.inf


def test_results_handed_in_again_change_nothing(team: Team) -> None:
    run = team.begin("a" * 40)
    results = list(results_of({"drift": "drifted", "parity[eager]": "clean"}))
    assert [team.add(run, *results), team.add(run, *results), team.add(run, *results[:1])] == [2, 0, 0]
    team.end(run)
    assert team.add(run, *results) == 0
    assert len(team.results(run)) == 2
    assert not any(result.is_flaky for result in team.results(run).values())


def test_the_same_item_twice_in_one_hand_in_is_one_result(sqlite_team: Team) -> None:
    run = sqlite_team.begin("a" * 40)
    assert sqlite_team.add(run, make_result(), make_result(), make_result(config="models.other")) == 2


def test_results_handed_in_by_many_at_once_are_remembered_once(team: Team) -> None:
    run = team.begin("a" * 40)
    results = [make_result(config=f"models.m{number}") for number in range(20)]
    with ThreadPoolExecutor(6) as pool:
        counts = list(pool.map(lambda part: team.add(run, *results[part : part + 10]), [0, 5, 10, 0, 5, 10]))
    assert sum(counts) == 20


def test_projects_of_a_repository_have_results_of_their_own(sqlite_team: Team) -> None:
    run = sqlite_team.begin("a" * 40)
    assert [sqlite_team.add(run, make_result(), project=project) for project in ("one", "two", "one")] == [1, 1, 0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"status": "fine"}, "result 1 is none: Invalid enum value 'fine'"),
        ({"path": "/etc/passwd"}, "result 1 is none: its path '/etc/passwd' does not start from the repository"),
        ({"path": "a/../../b"}, "result 1 is none: its path 'a/../../b' does not start from the repository"),
        ({"config": "c" * 301}, "result 1 is none: its config has more than 300 characters"),
        ({"figures": {"a": "b"}}, "result 1 is none: Expected `int | float`"),
    ],
)
def test_of_results_one_of_which_is_none_nothing_is_remembered(
    sqlite_team: Team, data: dict[str, object], message: str
) -> None:
    team = sqlite_team
    run = team.begin("a" * 40)
    packed = [pack(make_result()), pack(make_result(config="models.other")) | data]

    def hand_in() -> None:
        with team.transactions() as session:
            add_results(session, team.store, run, ".", packed, NOW)

    with pytest.raises(ValueError, match="^" + message.replace("|", r"\|")):
        hand_in()
    assert not team.results(run)


def test_characters_that_a_database_cannot_hold_are_escaped(team: Team) -> None:
    run = team.begin("a" * 40)
    packed = pack(make_result(status="failed", errors=(Problem("a\0b"),)))
    packed["notes"] = ["\ud800"]
    packed["figures"] = {"\0": 1.0}
    with team.transactions() as session:
        add_results(session, team.store, run, ".", [packed], NOW)
    assert team.results(run)["drift"].headline == "a\\x00b"


def test_a_run_that_was_cancelled_takes_no_new_results(sqlite_team: Team) -> None:
    run = sqlite_team.begin("a" * 40)
    sqlite_team.add(run, make_result())
    with sqlite_team.transactions() as session:
        cancel_run(session, run.id, "ada", NOW)
    assert sqlite_team.add(run, make_result()) == 0
    with pytest.raises(RunEnded):
        sqlite_team.add(run, make_result(item="parity[eager]"))


def test_a_full_disk_loses_nothing_that_was_there_and_leaves_nothing_half(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = team.begin("a" * 40)
    team.add(run, make_result())
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", _disk_is_full)
        with pytest.raises(StoreError, match=r"a file of \d+ bytes cannot be stored: the disk is full"):
            team.add(run, make_result(item="parity[eager]"))
    assert list(team.results(run)) == ["drift"]
    assert not list(team.store.folder.glob("*/.new-*"))
    assert team.add(run, make_result(item="parity[eager]")) == 1
    with team.transactions() as session:
        assert session.scalar(select(func.count(Artifact.digest))) == len(list(team.store.digests())) == 2


def _disk_is_full(handle: int) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("statuses", "status", "message"),
    [
        ({"drift": "clean", "parity[eager]": "skipped"}, "passed", "2 results"),
        ({"drift": "drifted", "parity[eager]": "clean"}, "drifted", "1 drifted of 2 results"),
        ({"drift": "drifted", "parity[eager]": "failed"}, "broken", "1 drifted, 1 broken of 2 results"),
        ({"drift": "error"}, "broken", "1 broken of 1 result"),
        ({"drift": "clean", "contract": "error"}, "broken", "1 broken of 2 results"),
        ({"drift": "fixed"}, "passed", "1 result"),
    ],
)
def test_a_run_ends_as_its_results_say(sqlite_team: Team, statuses: dict[str, str], status: str, message: str) -> None:
    run = sqlite_team.run("a" * 40, statuses)
    assert (run.status, run.message) == (status, message)
    again = sqlite_team.end(run)
    assert (again.ended, again.status) == (run.ended, status)


def test_a_run_without_results_is_no_success(sqlite_team: Team) -> None:
    run = sqlite_team.end(sqlite_team.begin("a" * 40))
    assert (run.status, run.message) == ("infrastructure_error", "the gate handed in no result")


def test_a_run_that_could_not_be_carried_through_says_so_beside_its_results(sqlite_team: Team) -> None:
    run = sqlite_team.begin("a" * 40)
    sqlite_team.add(run, make_result(status="drifted"))
    run = sqlite_team.end(run, problem=RunProblem("timed_out", "an hour was not enough"))
    assert (run.status, run.message) == ("timed_out", "an hour was not enough; 1 drifted of 1 result")


def test_what_could_not_be_checked_is_no_finding(sqlite_team: Team) -> None:
    dead = make_result(item="parity[eager]", status="failed", errors=(OUT_OF_MEMORY,))
    run = sqlite_team.begin("a" * 40)
    sqlite_team.add(run, make_result(), dead)
    run = sqlite_team.end(run)
    assert (run.status, run.message) == ("infrastructure_error", "1 could not be checked of 2 results")
    second = sqlite_team.begin("b" * 40)
    sqlite_team.add(second, make_result(status="drifted"), dead)
    assert sqlite_team.end(second).status == "drifted"


def test_a_check_that_raises_in_the_gate_says_nothing_of_the_config(tmp_path: Path) -> None:
    class Raising:
        name = "raising"

        def run(self, path: Path, item: str) -> list[CheckResult]:
            raise OSError(28, "No space left on device")

    path = tmp_path / "pyproject.toml"
    path.write_text('[tool.patchgen]\nsearch_root = "."\npackage_prefix = "acme"\n')
    item = Item(path, "raising", Raising())  # type: ignore[arg-type]
    (result,) = run_item(item, GateSession(None, Settings()))
    assert is_no_verdict(result)
    assert not is_no_verdict(make_result(status="failed", errors=(OUT_OF_MEMORY, Problem("the loss differs"))))
    assert not is_no_verdict(make_result(status="drifted"))
    for name, is_from_outside in (("SIGTERM", True), ("SIGSEGV", False)):
        problem = Problem(f"checking models.toy dies: its process has ended by {name}")
        assert is_no_verdict(make_result(status="failed", errors=(problem,))) == is_from_outside


def test_another_verdict_of_the_same_commit_and_environment_is_flaky(sqlite_team: Team) -> None:
    first = sqlite_team.run("a" * 40, {"drift": "clean", "parity[eager]": "failed"})
    second = sqlite_team.run("a" * 40, {"drift": "clean", "parity[eager]": "clean"}, kind="manual")
    assert (first.status, second.status) == ("broken", "flaky")
    assert second.message == "1 flaky of 2 results: the same commit in the same environment gave different results"
    for run in (first, second):
        assert {item: result.is_flaky for item, result in sqlite_team.results(run).items()} == {
            "drift": False,
            "parity[eager]": True,
        }
    third = sqlite_team.run("a" * 40, {"drift": "clean", "parity[eager]": "failed"}, kind="manual")
    assert third.status == "flaky"


@pytest.mark.parametrize("other", ["commit", "environment", "release", "skipped", "without environment"])
def test_another_verdict_of_something_else_is_not_flaky(sqlite_team: Team, other: str) -> None:
    team = sqlite_team
    facts = None if other == "without environment" else EnvironmentFacts(torch="2.8")
    first = "skipped" if other == "skipped" else "failed"
    team.run("a" * 40, {"parity": first}, facts=facts)
    if other == "environment":
        facts = EnvironmentFacts(torch="2.9")
    sha = "b" * 40 if other == "commit" else "a" * 40
    release = "5.24.0" if other == "release" else ""
    assert team.run(sha, {"parity": "clean"}, kind="manual", transformers=release, facts=facts).status == "passed"


def test_what_is_broken_each_time_is_not_excused_by_what_is_flaky(sqlite_team: Team) -> None:
    sqlite_team.run("a" * 40, {"parity": "failed", "contract": "failed"})
    second = sqlite_team.run("a" * 40, {"parity": "clean", "contract": "failed"}, kind="manual")
    assert (second.status, second.message) == ("broken", "1 broken, 1 flaky of 2 results")


def test_an_item_done_again_in_its_run_with_another_verdict_is_flaky_and_stays_red(sqlite_team: Team) -> None:
    run = sqlite_team.begin("a" * 40)
    sqlite_team.add(run, make_result())
    assert sqlite_team.add(run, make_result(status="drifted", causes=(Cause("missing"),))) == 0
    assert sqlite_team.add(run, make_result()) == 0
    result = sqlite_team.results(run)["drift"]
    assert (result.status, result.is_flaky, result.causes) == ("drifted", True, ["missing"])
    assert read_result(sqlite_team.store, result).status == "drifted"
    assert sqlite_team.end(run).status == "flaky"


def test_a_verdict_takes_the_place_of_none(sqlite_team: Team) -> None:
    run = sqlite_team.begin("a" * 40)
    dead = make_result(item="parity", status="failed", errors=(OUT_OF_MEMORY,))
    sqlite_team.add(run, dead)
    sqlite_team.add(run, make_result(item="parity"))
    sqlite_team.add(run, dead)
    result = sqlite_team.results(run)["parity"]
    assert (result.status, result.is_flaky, result.is_infrastructure) == ("clean", False, False)
    assert sqlite_team.end(run).status == "passed"


def test_a_stored_file_that_is_damaged_or_gone_is_said(sqlite_team: Team) -> None:
    run = sqlite_team.begin("a" * 40)
    sqlite_team.add(run, make_result())
    result = sqlite_team.results(run)["drift"]
    path = sqlite_team.store.path(result.data)
    path.write_bytes(b"other")
    with pytest.raises(StoreError, match="is damaged"):
        read_result(sqlite_team.store, result)
    path.unlink()
    with pytest.raises(StoreError, match="it is no longer kept"):
        read_result(sqlite_team.store, result)
    with pytest.raises(StoreError, match="is no digest"):
        Store(path.parent).path("../../etc/passwd")
    with sqlite_team.transactions() as session:
        assert session.get_one(Result, result.id).status == "clean"
