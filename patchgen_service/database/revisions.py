"""Which tables a database has, and which it should have."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text

REVISIONS = "alembic_version"
"""The table that holds the revision of a database."""
FOLDER = Path(__file__).with_name("migrations")


def read_revision(connection: Connection) -> str | None:
    """The revision that a database is at; none for one without tables."""
    if not inspect(connection).has_table(REVISIONS):
        return None
    revision: str | None = connection.execute(text(f"SELECT version_num FROM {REVISIONS}")).scalar()
    return revision


def known_revisions() -> frozenset[str]:
    """The revisions that this version can bring a database from."""
    return frozenset(path.stem for path in (FOLDER / "versions").glob("[0-9]*.py"))


def head_revision() -> str:
    """The revision of this version's tables: revisions are numbered, and the last one is the head."""
    return max(known_revisions())
