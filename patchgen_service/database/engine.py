"""The connection to the database: SQLite beside the files of the service, or PostgreSQL."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from sqlalchemy import Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError, TimeoutError
from sqlalchemy.orm import Session, sessionmaker

from patchgen_service.database.turns import Turns

Transactions = Callable[[], AbstractContextManager[Session]]
"""``with transactions() as session``: committed at its end, rolled back when it raises."""
UNAVAILABLE = (OperationalError, TimeoutError)
"""What is raised where the database cannot be reached or written now; the second where no connection became free."""

_WAIT_SECONDS = 30
_SECONDS_BETWEEN_TRIES = 0.02
_PAGES_AT_ONCE = 2000


def describe_cause(error: SQLAlchemyError) -> str:
    """What the database said, in a line: without the statement and its values, which may be anybody's."""
    return " ".join(str(error.orig if isinstance(error, DBAPIError) else error).split())


def open_database(url: str) -> Engine:
    """An engine for ``sqlite:///path`` or ``postgresql://...``."""
    address = make_url(url)
    if address.get_backend_name() == "sqlite":
        engine = create_engine(address, connect_args={"timeout": _WAIT_SECONDS})
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_writing)
        return engine
    return create_engine(address.set(drivername="postgresql+psycopg"), pool_pre_ping=True)


def make_transactions(engine: Engine, turns: Turns | None = None) -> Transactions:
    """What begins a transaction on ``engine``; objects stay readable after it.

    On SQLite, where one can write at a time, those of one process are let in in the order in which they come: the
    database itself has each wait and try again, and who writes most would get in most.
    """
    begin = sessionmaker(engine, expire_on_commit=False).begin
    if engine.dialect.name != "sqlite":
        return begin
    own_turns = turns or Turns()

    @contextmanager
    def begin_in_turn() -> Iterator[Session]:
        with own_turns.take(_WAIT_SECONDS), begin() as session:
            yield session

    return begin_in_turn


def make_readings(engine: Engine) -> Transactions:
    """What begins a transaction that only reads, and on SQLite waits for nobody who writes."""
    return sessionmaker(engine.execution_options(read_only=True), expire_on_commit=False).begin


def give_back_space(engine: Engine) -> None:
    """Have the file system get back what rows took that were removed; writers wait for a short while at a time."""
    if engine.dialect.name == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM")
        return
    raw = engine.raw_connection()
    try:
        while pages := raw.cursor().execute("PRAGMA freelist_count").fetchone()[0]:
            raw.cursor().execute(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})").fetchall()
            if raw.cursor().execute("PRAGMA freelist_count").fetchone()[0] >= pages:
                break  # a file of a version that did not ask for this
        raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        raw.close()


def _set_up_sqlite(connection: Any, record: object) -> None:
    connection.isolation_level = None  # transactions begin below, not with the first write
    pragmas = [f"busy_timeout={_WAIT_SECONDS * 1000}", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"]
    if not connection.execute("PRAGMA page_count").fetchone()[0]:
        pragmas.insert(1, "auto_vacuum=INCREMENTAL")  # later it would wait for writers, and change nothing
    for pragma in pragmas:
        _execute_patiently(connection, f"PRAGMA {pragma}")


def _execute_patiently(connection: Any, statement: str) -> None:
    """Execute a statement, and again while somebody else has the file: to change its journal SQLite does not wait."""
    until = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            connection.execute(statement).close()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
        time.sleep(_SECONDS_BETWEEN_TRIES)


def _begin_writing(connection: Any) -> None:
    """Take the write lock at once: a transaction that reads and then writes could not wait for it."""
    connection.exec_driver_sql(
        "BEGIN IMMEDIATE" if not connection.get_execution_options().get("read_only") else "BEGIN"
    )
