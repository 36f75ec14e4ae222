"""Bringing a database to the tables of this version."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, text

from patchgen_core.errors import PatchgenError

FOLDER = Path(__file__).with_name("migrations")
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
            try:
                command.upgrade(make_config(connection), "head")
            except CommandError as error:
                message = f"the database was made by another version of the service: {error}"
                raise PatchgenError(message, None, "Take that version, or a later one.") from None


def read_revision(connection: Connection) -> str | None:
    """The revision that a database is at; none for one without tables."""
    return MigrationContext.configure(connection).get_current_revision()


def head_revision() -> str | None:
    """The revision of this version's tables."""
    return ScriptDirectory.from_config(make_config()).get_current_head()


def make_config(connection: Connection | None = None) -> Config:
    """What Alembic has to know."""
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
