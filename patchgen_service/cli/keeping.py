"""``patchgen serve backup``, ``restore`` and ``migrate``."""

from __future__ import annotations

import argparse
import os
from datetime import timedelta
from pathlib import Path

from sqlalchemy import Engine

from patchgen_core.errors import Location, PatchgenError
from patchgen_core.report.words import quantity
from patchgen_service.cli.serving import settings_of
from patchgen_service.database.copying import copy_database
from patchgen_service.database.engine import make_readings, open_database
from patchgen_service.database.migrating import upgrade_database
from patchgen_service.records.backups import BackupSummary, restore_backup, write_backup
from patchgen_service.records.machines import live_workers
from patchgen_service.secrets import KEY_NAME, KEY_VARIABLE
from patchgen_service.settings import ServiceSettings
from patchgen_service.store import Store
from patchgen_service.web.site import utc_now

_ALIVE = timedelta(minutes=1)


def keep(options: argparse.Namespace) -> int:
    """Look after a service's data; returns the exit code."""
    settings = settings_of(options)
    if options.action == "backup":
        _require_service(settings)
    settings.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    engine, store = open_database(settings.database_url), Store(settings.files_folder)
    if options.action == "backup":
        print(_tell(write_backup(engine, store, options.file)))
        print(_tell_of_key(settings, "Keep {} with the backup, but in another place: the backup does not contain it."))
    elif options.action == "restore":
        _refuse_running(engine, "restored")
        print(_tell(restore_backup(options.file, engine, store)))
        print(_tell_of_key(settings, "Start it with the key of the service that was backed up, as {}."))
    elif options.to:
        _refuse_running(engine, "copied")
        print(f"copied {quantity(sum(copy_database(engine, open_database(options.to)).values()), 'row')}")
        print("Its files stay where they are. Set PATCHGEN_DATABASE, or 'database' in service.toml, to that address.")
    else:
        upgrade_database(engine)
        print("the database is that of this version")
    return 0


def _require_service(settings: ServiceSettings) -> None:
    """A PatchgenError where there is no database: to open one would make it."""
    path = settings.database_url.removeprefix("sqlite:///")
    if path != settings.database_url and not Path(path).exists():
        raise PatchgenError("there is no service to back up", Location(path), "--data names the folder of its data.")


def _tell_of_key(settings: ServiceSettings, sentence: str) -> str:
    """That a backup has no key, without which nobody can read the secrets in it."""
    place = KEY_VARIABLE if os.environ.get(KEY_VARIABLE) else str(settings.folder / KEY_NAME)
    return f"{sentence.format(place)} Without that key the secrets of repositories cannot be read."


def _refuse_running(engine: Engine, what: str) -> None:
    """Leave a database alone that a service works on: what it did meanwhile would be lost."""
    upgrade_database(engine)
    with make_readings(engine)() as session:
        names = [worker.name for worker in live_workers(session, utc_now() - _ALIVE)]
    if names:
        raise PatchgenError(
            f"a running service cannot be {what}: '{names[0]}' works on this database",
            None,
            "Stop it first; a killed service counts as running for another minute.",
        )


def _tell(summary: BackupSummary) -> str:
    counts = f"{quantity(sum(summary.rows.values()), 'row')}, {quantity(summary.files, 'file')}"
    text = f"{counts}, in tables of revision {summary.revision}"
    lost = quantity(len(summary.missing), "file")
    return f"{text}; {lost} could not be read: {', '.join(summary.missing)}" if summary.missing else text
