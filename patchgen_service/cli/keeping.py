"""``patchgen serve backup``, ``restore`` and ``migrate``."""

from __future__ import annotations

import argparse

from patchgen_core.report.words import quantity
from patchgen_service.cli.serving import settings_of
from patchgen_service.database.copying import copy_database
from patchgen_service.database.engine import open_database
from patchgen_service.database.migrating import upgrade_database
from patchgen_service.records.backups import BackupSummary, restore_backup, write_backup
from patchgen_service.store import Store


def keep(options: argparse.Namespace) -> int:
    """Look after a service's data; returns the exit code."""
    settings = settings_of(options)
    settings.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    engine, store = open_database(settings.database_url), Store(settings.files_folder)
    if options.action == "backup":
        upgrade_database(engine)
        print(_tell(write_backup(engine, store, options.file)))
    elif options.action == "restore":
        print(_tell(restore_backup(options.file, engine, store)))
    elif options.to:
        print(f"copied {quantity(sum(copy_database(engine, open_database(options.to)).values()), 'row')}")
    else:
        upgrade_database(engine)
        print("the database is that of this version")
    return 0


def _tell(summary: BackupSummary) -> str:
    text = f"{quantity(sum(summary.rows.values()), 'row')}, {quantity(summary.files, 'file')}"
    lost = quantity(len(summary.missing), "file")
    return f"{text}; {lost} could not be read: {', '.join(summary.missing)}" if summary.missing else text
