"""Running migrations, by Alembic. Imported when there is one to run: it takes 11 MiB that a service then keeps."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection

from patchgen_core.errors import PatchgenError
from patchgen_service.database.revisions import FOLDER


def run_migrations(connection: Connection) -> None:
    """Run those that a database has not had; a PatchgenError when it was made by a later version."""
    try:
        command.upgrade(make_config(connection), "head")
    except CommandError as error:
        message = f"the database was made by another version of the service: {error}"
        raise PatchgenError(message, None, "Take that version, or a later one.") from None


def make_config(connection: Connection | None = None) -> Config:
    """What Alembic has to know."""
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
