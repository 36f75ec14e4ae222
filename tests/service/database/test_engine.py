"""The databases behave as the service counts on."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from service_samples import NOW
from sqlalchemy import Engine, select, text

from patchgen_service.database.engine import (
    give_back_space,
    make_readings,
    make_transactions,
    open_database,
)
from patchgen_service.database.migrating import upgrade_database
from patchgen_service.database.statements import insert_once
from patchgen_service.database.tables import PeriodicTask
from patchgen_service.database.turns import Turns


@pytest.mark.slow
def test_space_of_removed_rows_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "test.sqlite"
    engine = open_database(f"sqlite:///{path}")
    upgrade_database(engine)
    with engine.begin() as connection:
        connection.execute(
            text("INSERT INTO audit_entry (at, actor, action, subject, details) VALUES (:at, 'a', 'b', :text, '{}')"),
            [{"at": "2026-01-01 00:00:00", "text": "x" * 5000}] * 1000,
        )
    give_back_space(engine)
    full = path.stat().st_size
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM audit_entry"))
    give_back_space(engine)
    assert path.stat().st_size < full / 5


def test_giving_back_space_works_on_each_database(engine: Engine) -> None:
    give_back_space(engine)


def test_a_row_is_inserted_once(engine: Engine) -> None:
    with make_transactions(engine)() as session:
        assert insert_once(session, PeriodicTask, name="a", done=NOW)
        assert not insert_once(session, PeriodicTask, name="a", done=NOW)


def test_reading_waits_for_nobody_who_writes(engine: Engine) -> None:
    with make_transactions(engine)() as session:
        insert_once(session, PeriodicTask, name="a", done=NOW)
        with make_readings(engine)() as reading:
            assert reading.scalars(select(PeriodicTask.name)).all() == []


def test_writers_wait_for_each_other(engine: Engine) -> None:
    transactions = make_transactions(engine)
    with transactions() as session:
        insert_once(session, PeriodicTask, name="count 0", done=NOW)

    def write(number: int) -> None:
        for step in range(5):
            with transactions() as session:
                session.scalars(select(PeriodicTask)).all()
                insert_once(session, PeriodicTask, name=f"{number} {step}", done=NOW)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with transactions() as session:
        assert len(session.scalars(select(PeriodicTask)).all()) == 21


def test_a_time_without_its_zone_is_refused(engine: Engine) -> None:
    with pytest.raises(Exception, match="a time without its zone"), make_transactions(engine)() as session:
        insert_once(session, PeriodicTask, name="a", done=NOW.replace(tzinfo=None))


def test_threads_write_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    engine, turns = open_database(f"sqlite:///{tmp_path / 'test.sqlite'}"), Turns()
    transactions = make_transactions(engine, turns)
    order: list[int] = []
    threads: list[threading.Thread] = []

    def write(number: int) -> None:
        with transactions():
            order.append(number)

    deadline = time.monotonic() + 60
    with transactions():
        for number in range(4):
            threads.append(threading.Thread(target=write, args=(number,)))
            threads[-1].start()
            while turns.queue_length <= number:
                assert time.monotonic() < deadline, "it does not wait for its turn"
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3]
