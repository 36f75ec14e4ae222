"""The databases behave as the service counts on."""

from __future__ import annotations

import threading
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


def test_who_writes_all_the_time_keeps_nobody_else_from_writing(tmp_path: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path / 'test.sqlite'}")
    upgrade_database(engine)
    transactions = make_transactions(engine)
    order, is_over = [], threading.Event()

    def write_all_the_time() -> None:
        while not is_over.is_set():
            with transactions() as session:
                insert_once(session, PeriodicTask, name="a", done=NOW)
                order.append("a")
                is_over.wait(0.01)

    thread = threading.Thread(target=write_all_the_time)
    thread.start()
    for _ in range(20):
        with transactions():
            order.append("b")
    is_over.set()
    thread.join()
    assert "aaa" not in "".join(order).strip("a")
