"""What is done by the clock: in its turn, again where it failed, and whatever the clock does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from service_samples import NOW
from service_team import Team

from patchgen_service.database.engine import Transactions
from patchgen_service.isolation.probe import Isolation
from patchgen_service.jobs.context import JobContext
from patchgen_service.jobs.housekeeping import tidy_folder
from patchgen_service.jobs.service import Chore, Jobs
from patchgen_service.records.machines import take_turn
from patchgen_service.secrets import open_secrets
from patchgen_service.settings import Retention, ServiceSettings
from patchgen_service.store import Store
from tests.service.jobs.test_jobs_engine import wait_until

DAY = timedelta(days=1)


class Clock:
    """A clock that is set by hand."""

    def __init__(self, now: datetime = NOW) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def shop(tmp_path: Path, sqlite_transactions: Transactions, store: Store, clock: Clock) -> JobContext:
    settings = ServiceSettings(
        tmp_path,
        database=f"sqlite:///{tmp_path / 'test.sqlite'}",
        index_url="http://127.0.0.1:9",
        retention=Retention(newest=1),
    )
    secrets = open_secrets(tmp_path, {}, True)
    return JobContext(settings, sqlite_transactions, store, secrets, Isolation("none"), clock=clock)


def do_at(jobs: Jobs, clock: Clock, moment: datetime, is_done: Callable[[], object]) -> None:
    """Have the clock at a moment until something is done."""
    clock.now = moment
    wait_until(is_done)


def test_a_daily_chore_that_fails_is_tried_again_in_ten_minutes(shop: JobContext, clock: Clock) -> None:
    def fail() -> None:
        raise OSError("no space left on device")

    jobs = Jobs(shop, carries_out=0, chores={"retention": Chore(DAY, fail)})
    with shop.transactions() as session:
        assert take_turn(session, "retention", DAY, NOW)
    jobs._do_chore("retention")
    minute = timedelta(minutes=1)
    with shop.transactions() as session:
        turns = [take_turn(session, "retention", DAY, NOW + count * minute) for count in (9, 10, 11)]
    assert turns == [False, True, False]


@pytest.mark.slow
def test_a_clock_that_jumps_ahead_and_back_loses_nothing_and_stops_nothing(
    shop: JobContext, clock: Clock, sqlite_team: Team
) -> None:
    """The chore itself, as the service does it: ten years ahead, and back again."""
    runs = [sqlite_team.run(letter * 40) for letter in "abc"]
    done: list[datetime] = []
    jobs = Jobs(shop, carries_out=0, chores={"seen": Chore(DAY, lambda: done.append(clock.now))})
    retention = jobs._chores["retention"].action
    jobs.start()
    try:
        wait_until(lambda: len(done) == 1)
        do_at(jobs, clock, NOW + 3650 * DAY, lambda: len(done) == 2)
        retention()
        do_at(jobs, clock, NOW, lambda: len(done) == 3)
        retention()
        do_at(jobs, clock, NOW + 2 * DAY, lambda: len(done) == 4)
    finally:
        jobs.stop()
    assert [sqlite_team.read(run).number for run in runs] == [1, 2, 3]


@pytest.mark.slow
def test_chores_are_left_to_the_service_by_workers_elsewhere(shop: JobContext) -> None:
    """A worker has no files, no forge and no clock of the service: an approval that it took would come to nothing."""
    approved: list[int] = []
    elsewhere = Jobs(replace(shop, worker="far", stopping=threading.Event()), carries_out=1, has_clock=False)
    assert "chores" not in elsewhere._engine._sizes
    jobs = Jobs(shop, carries_out=0, approve=approved.append)
    jobs.start()
    try:
        jobs.approve(7)
        wait_until(lambda: approved == [7])
    finally:
        jobs.stop()


def test_mirrors_of_removed_repositories_and_unused_environments_go(shop: JobContext, sqlite_team: Team) -> None:
    settings = shop.settings
    kept, gone = settings.mirrors_folder / "1", settings.mirrors_folder / "7"
    for folder in (kept, gone, settings.environments_folder / "half-made"):
        folder.mkdir(parents=True)
    tidy_folder(shop)
    assert (kept.exists(), gone.exists()) == (True, False)
    assert not list(settings.environments_folder.glob("*"))
