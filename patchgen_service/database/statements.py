"""Statements that SQLite and PostgreSQL both have, but SQLAlchemy spells apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import func, literal, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from patchgen_service.database.tables import Base

Row = TypeVar("Row", bound=Base)
Key = TypeVar("Key")
MOST_AT_ONCE = 500
"""How many values a statement gets: each is a parameter, and databases have limits for these."""


def insert_once(session: Session, table: type[Row], **values: Any) -> bool:
    """Insert a row unless one is there that its unique columns forbid beside it; returns whether it was inserted.

    Of two transactions that do so at once, the second waits for the first.
    """
    insert = postgresql.insert if is_postgresql(session) else sqlite.insert
    statement = insert(table).values(**values).on_conflict_do_nothing().returning(literal(1))
    return session.connection().execute(statement).first() is not None


def insert_all_once(session: Session, table: type[Row], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, but for those that its unique columns forbid beside what is there."""
    insert = postgresql.insert if is_postgresql(session) else sqlite.insert
    if rows:
        session.connection().execute(insert(table).on_conflict_do_nothing(), list(rows))


def lock_row(session: Session, table: type[Row], key: Any) -> Row | None:
    """The row of a primary key as it is now; others that want to change it wait until the transaction ends.

    Those that insert rows which refer to it do not: its key stays.
    """
    return session.get(table, key, with_for_update={"key_share": True}, populate_existing=True)


def lock_name(session: Session, name: str, shared: bool = False) -> None:
    """Hold a lock of that name until the transaction ends. On SQLite, whoever writes has the only lock already."""
    if is_postgresql(session):
        lock = func.pg_advisory_xact_lock_shared if shared else func.pg_advisory_xact_lock
        session.execute(select(lock(func.hashtextextended(name, 0))))


def is_postgresql(session: Session) -> bool:
    """Whether the session's database is PostgreSQL."""
    return session.get_bind().dialect.name == "postgresql"


def split(values: Iterable[Key]) -> Iterator[Sequence[Key]]:
    """Values in parts that one statement can take."""
    everything = list(values)
    for start in range(0, len(everything), MOST_AT_ONCE):
        yield everything[start : start + MOST_AT_ONCE]
