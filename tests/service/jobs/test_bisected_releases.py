"""The first release that breaks a config is found with few runs, and no release is run twice for a commit."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from service_samples import NOW, make_result
from service_team import Team

from patchgen_service.database.tables import Release, Run
from patchgen_service.isolation.probe import Isolation
from patchgen_service.jobs.bisecting import bisect_releases
from patchgen_service.jobs.context import JobContext
from patchgen_service.records.machines import EnvironmentFacts
from patchgen_service.records.runs import RunProblem
from patchgen_service.secrets import open_secrets
from patchgen_service.settings import ServiceSettings
from patchgen_service.views.releases import read_matrix

SHA = "c" * 40
VERSIONS = [f"5.{number}.0" for number in range(20)]


@pytest.fixture
def shop(tmp_path: Path, sqlite_team: Team) -> JobContext:
    """A service that knows twenty releases, one of them withdrawn, and a candidate."""
    with sqlite_team.transactions() as session:
        for version in VERSIONS:
            session.add(Release(version=version, is_yanked=version == "5.13.0", seen=NOW))
        session.add(Release(version="5.14.0rc1", is_candidate=True, seen=NOW))
    settings, secrets = ServiceSettings(tmp_path), open_secrets(tmp_path, {}, True)
    transactions, store = sqlite_team.transactions, sqlite_team.store
    return JobContext(settings, transactions, store, secrets, Isolation("none"), clock=lambda: NOW + timedelta(days=9))


def carry_out(team: Team, run: Run, first_bad: dict[str, int]) -> None:
    """Carry a run out as a gate would over configs of which each breaks since a release."""
    team.start(run, EnvironmentFacts(transformers=run.transformers or "5.4.0"))
    number = int((run.transformers or "5.4.0").split(".")[1])
    statuses = {name: "failed" if number >= bad else "clean" for name, bad in first_bad.items()}
    team.add(run, *(make_result(name, "contract", status) for name, status in statuses.items()))
    team.end(run)


def bisect(team: Team, shop: JobContext, first_bad: dict[str, int], unanswered: tuple[str, ...] = ()) -> list[str]:
    """Bisect until nothing is left to do; returns the releases that were run, in their order."""
    tried = []
    while runs := bisect_releases(shop):
        (run_id,) = runs
        assert bisect_releases(shop) == [], "one is waited for at a time"
        with team.transactions() as session:
            run = session.get_one(Run, run_id)
        tried.append(run.transformers)
        if run.transformers in unanswered:
            team.end(run, problem=RunProblem("infrastructure_error", "it cannot be installed"))
        else:
            carry_out(team, run, first_bad)
    return tried


def turns(team: Team) -> dict[str, tuple[str, str, bool]]:
    """For each config the releases between which it turns, and whether that is exact."""
    with team.transactions() as session:
        matrix = read_matrix(session, team.repository(session))
    return {row.key.config: (row.turn.before, row.turn.after, row.turn.is_exact) for row in matrix.rows if row.turn}


def begin_release(team: Team, version: str) -> Run:
    return team.begin(SHA, kind="release", transformers=version)


def test_the_first_release_that_breaks_is_found(sqlite_team: Team, shop: JobContext) -> None:
    first_bad = {"models.toy": 14, "models.other": 14, "models.late": 18, "models.well": 99}
    carry_out(sqlite_team, sqlite_team.begin(SHA), first_bad)
    carry_out(sqlite_team, begin_release(sqlite_team, "5.19.0"), first_bad)
    assert turns(sqlite_team)["models.toy"] == ("", "5.19.0", False)
    tried = bisect(sqlite_team, shop, first_bad)
    assert len(tried) == len(set(tried))
    assert len(tried) <= 7
    assert "5.13.0" not in tried, "it was withdrawn"
    assert turns(sqlite_team) == {
        "models.toy": ("5.12.0", "5.14.0", True),
        "models.other": ("5.12.0", "5.14.0", True),
        "models.late": ("5.17.0", "5.18.0", True),
    }
    assert bisect(sqlite_team, shop, first_bad) == [], "what is known is not run again"


def test_a_release_that_cannot_be_installed_is_gone_around(sqlite_team: Team, shop: JobContext) -> None:
    first_bad = {"models.toy": 12}
    carry_out(sqlite_team, sqlite_team.begin(SHA), first_bad)
    carry_out(sqlite_team, begin_release(sqlite_team, "5.19.0"), first_bad)
    tried = bisect(sqlite_team, shop, first_bad, ("5.11.0",))
    assert (tried[0], tried.count("5.11.0")) == ("5.11.0", 1)
    assert turns(sqlite_team)["models.toy"] == ("5.10.0", "5.12.0", False)


def test_a_commit_that_was_not_run_with_its_own_release_is_run_with_that_first(
    sqlite_team: Team, shop: JobContext
) -> None:
    first_bad = {"models.toy": 6}
    carry_out(sqlite_team, sqlite_team.begin("a" * 40), first_bad)
    carry_out(sqlite_team, begin_release(sqlite_team, "5.19.0"), first_bad)
    assert bisect(sqlite_team, shop, first_bad)[0] == "5.4.0"
    assert turns(sqlite_team)["models.toy"] == ("5.5.0", "5.6.0", True)


@pytest.mark.parametrize("first_bad", [{"models.toy": 0}, {"models.toy": 99}], ids=["always", "never"])
def test_where_nothing_turns_nothing_is_run(sqlite_team: Team, shop: JobContext, first_bad: dict[str, int]) -> None:
    carry_out(sqlite_team, sqlite_team.begin(SHA), first_bad)
    carry_out(sqlite_team, begin_release(sqlite_team, "5.19.0"), first_bad)
    assert bisect(sqlite_team, shop, first_bad) == []
