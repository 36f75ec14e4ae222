"""The connection to the database: SQLite beside the files of the service, or PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import Engine, create_engine, event, make_url
from sqlalchemy.orm import Session, sessionmaker

Transactions = Callable[[], AbstractContextManager[Session]]
"""``with transactions() as session``: committed at its end, rolled back when it raises."""

_WAIT_SECONDS = 30


def open_database(url: str) -> Engine:
    """An engine for ``sqlite:///path`` or ``postgresql://...``."""
    address = make_url(url)
    if address.get_backend_name() == "sqlite":
        engine = create_engine(address, connect_args={"timeout": _WAIT_SECONDS})
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_writing)
        return engine
    return create_engine(address.set(drivername="postgresql+psycopg"), pool_pre_ping=True)


def make_transactions(engine: Engine) -> Transactions:
    """What begins a transaction on ``engine``; objects stay readable after it."""
    return sessionmaker(engine, expire_on_commit=False).begin


def make_readings(engine: Engine) -> Transactions:
    """What begins a transaction that only reads, and on SQLite waits for nobody who writes."""
    return sessionmaker(engine.execution_options(read_only=True), expire_on_commit=False).begin


def _set_up_sqlite(connection: Any, record: object) -> None:
    connection.isolation_level = None  # transactions begin below, not with the first write
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"busy_timeout={_WAIT_SECONDS * 1000}"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_writing(connection: Any) -> None:
    """Take the write lock at once: a transaction that reads and then writes could not wait for it."""
    connection.exec_driver_sql(
        "BEGIN IMMEDIATE" if not connection.get_execution_options().get("read_only") else "BEGIN"
    )
