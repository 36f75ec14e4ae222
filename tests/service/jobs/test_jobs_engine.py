"""The engine under the jobs: each is done once, and what is over can be asked for until it is forgotten."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest

from patchgen_service.jobs.engine import Engine, MillisecondConnection


def wait_until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


@pytest.mark.mostly_slow(1)
def test_jobs_are_done_once_and_forgotten_when_they_are_old(database_url: str) -> None:
    done: list[str] = []
    go_on = threading.Event()

    def work(argument: str) -> None:
        done.append(argument)
        if argument == "wait":
            go_on.wait(30)

    engine = Engine(database_url, "test", {"runs": work}, {"runs": 2})
    engine.start()
    try:
        for _ in range(2):
            engine.submit("runs", "one", "first")
        wait_until(lambda: engine.is_over("one"))
        engine.submit("runs", "one", "again")
        engine.submit("runs", "two", "wait")
        wait_until(lambda: "wait" in done)
        assert (done, engine.is_over("two"), engine.is_over("three")) == (["first", "wait"], False, None)
        now = datetime.now(timezone.utc)
        assert engine.forget(now - timedelta(hours=1)) == 0
        assert engine.forget(now + timedelta(minutes=1)) == 1
        assert (engine.is_over("one"), engine.is_over("two")) == (None, False)
    finally:
        go_on.set()
        engine.stop()


def test_sqlite_tells_the_milliseconds_that_jobs_are_kept_with_however_old_it_is() -> None:
    with sqlite3.connect(":memory:", factory=MillisecondConnection) as connection:
        connection.execute("CREATE TABLE jobs (name TEXT, time INTEGER NOT NULL DEFAULT (unixepoch('subsec') * 1000))")
        connection.execute("INSERT INTO jobs (name) VALUES ('one')")
        ((milliseconds,),) = connection.execute("SELECT time FROM jobs")
    assert abs(milliseconds / 1000 - time.time()) < 5
