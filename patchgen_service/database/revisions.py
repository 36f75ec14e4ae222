"""Which tables a database has, and which it should have."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text

FOLDER = Path(__file__).with_name("migrations")


def read_revision(connection: Connection) -> str | None:
    """The revision that a database is at; none for one without tables."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return revision


def head_revision() -> str:
    """The revision of this version's tables: revisions are numbered, and the last one is the head."""
    return max(path.stem for path in (FOLDER / "versions").glob("[0-9]*.py"))
