"""Writes the migration from the newest one to the tables as they are: ``python -m tools.migration "What changes"``.

Read what it writes: a renamed column looks like one that goes and another that comes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from alembic import command

from patchgen_service.database.engine import open_database
from patchgen_service.database.migrating import upgrade_database
from patchgen_service.database.revisions import FOLDER
from patchgen_service.database.upgrading import make_config


def write_migration(message: str) -> Path:
    """Write a migration, and return its path."""
    versions = FOLDER / "versions"
    number = len(list(versions.glob("[0-9]*.py"))) + 1
    with tempfile.TemporaryDirectory() as folder:
        engine = open_database(f"sqlite:///{folder}/database.sqlite")
        upgrade_database(engine)
        with engine.begin() as connection:
            config = make_config(connection)
            config.set_main_option("file_template", "%%(rev)s")
            command.revision(config, message, autogenerate=True, rev_id=f"{number:04}")
        engine.dispose()
    path = versions / f"{number:04}.py"
    for arguments in (["format", "--quiet"], ["check", "--fix", "--quiet"]):
        subprocess.run([sys.executable, "-m", "ruff", *arguments, str(path)], check=True)
    return path


if __name__ == "__main__":
    print(write_migration(" ".join(sys.argv[1:])))
