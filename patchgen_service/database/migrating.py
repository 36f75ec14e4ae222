"""Bringing a database to the tables of this version."""

from __future__ import annotations

from sqlalchemy import Engine, text

from patchgen_service.database.revisions import head_revision, read_revision

_LOCK = 7_202_611_23
"""The number of PostgreSQL's lock that of several services on one database lets one upgrade it."""


def upgrade_database(engine: Engine) -> None:
    """Make or change tables until they are those of this version; all of them, or none.

    A PatchgenError when the database was made by a later version.
    """
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        if read_revision(connection) != head_revision():
            from patchgen_service.database.upgrading import run_migrations

            run_migrations(connection)
