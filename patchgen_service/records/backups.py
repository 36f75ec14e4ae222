"""Backups: one file with everything that is remembered, whatever the database; and the way back.

A backup is a compressed tar with ``backup.json``, the rows as ``database.sqlite``, and stored files under ``files/``.
The key of the secrets is not in it.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import DatabaseError, OperationalError

from patchgen_core.errors import Location, PatchgenError
from patchgen_service.database.copying import copy_database, read_snapshot, require_empty
from patchgen_service.database.copying_tables import copy_tables
from patchgen_service.database.engine import describe_cause, open_database
from patchgen_service.database.revisions import head_revision, known_revisions, read_revision
from patchgen_service.database.tables import Artifact
from patchgen_service.store import Store, StoreError

_FORMAT = 1
_ABOUT, _ROWS = "backup.json", "database.sqlite"
_FILE = re.compile(r"files/[0-9a-f]{2}/([0-9a-f]{64})")


@dataclass(frozen=True)
class BackupSummary:
    """What a backup holds.

    Attributes:
        revision: which tables it has; restoring it makes those of the present version of them.
        rows: how many rows of each table.
        missing: digests of stored files that were gone or damaged, and are not in it.
    """

    revision: str
    rows: dict[str, int]
    files: int
    missing: tuple[str, ...] = ()


def write_backup(engine: Engine, store: Store, path: Path) -> BackupSummary:
    """Write a backup, while the service runs or not; the database stays as it is, whichever version made its tables.

    Rows are those of one moment. Files that are removed as too old meanwhile are named as missing. A PatchgenError
    when the database has no tables of a service, or the file cannot be written.
    """
    with read_snapshot(engine) as reading:
        revision = read_revision(reading)
        if revision is None:
            raise PatchgenError("there is nothing to back up: the database has no tables of the service")
        return _write(reading, revision, store, path)


def _write(reading: Connection, revision: str, store: Store, path: Path) -> BackupSummary:
    try:
        with tempfile.TemporaryDirectory(prefix=".backup-", dir=path.absolute().parent) as folder:
            copy = open_database(f"sqlite:///{Path(folder) / _ROWS}")
            rows = copy_tables(reading, copy)
            digests = _read_digests(copy)
            copy.dispose()
            temporary = Path(folder) / "backup"
            about: Mapping[str, str | int] = {"format": _FORMAT, "revision": revision}
            missing = _write_archive(temporary, about, Path(folder) / _ROWS, store, digests)
            os.replace(temporary, path)
    except OSError as error:
        raise PatchgenError(f"the backup cannot be written: {error.strerror}", Location(str(path))) from None
    except OperationalError as error:  # of the copy, most likely, for which there is no room
        raise PatchgenError(f"the backup cannot be written: {describe_cause(error)}", Location(str(path))) from None
    return BackupSummary(revision, rows, len(digests) - len(missing), tuple(missing))


def restore_backup(path: Path, engine: Engine, store: Store) -> BackupSummary:
    """Fill an empty database and the stored files from a backup, be it of an older version of the service.

    A PatchgenError when the file is no backup, damaged or of a later version, or the database or the stored files are
    not empty; they then stay as they were.
    """
    require_empty(engine)
    if next(store.digests(), None) is not None:
        raise PatchgenError("there are stored files already", Location(str(store.folder)), "Give an empty folder.")
    try:
        return _restore(path, engine, store)
    except BaseException:
        store.sweep(lambda digest: False)
        raise


def _restore(path: Path, engine: Engine, store: Store) -> BackupSummary:
    try:
        with tempfile.TemporaryDirectory(prefix="patchgen-restore-") as folder, tarfile.open(path, "r:gz") as archive:
            revision = _check_about(archive, path)
            files = 0
            for member in archive:
                if match := _FILE.fullmatch(member.name):
                    if store.put(_read_member(archive, member)) != match[1]:
                        raise PatchgenError(f"the file {match[1][:12]} in it is damaged", Location(str(path)))
                    files += 1
                elif member.name == _ROWS and (stream := archive.extractfile(member)) is not None:
                    with open(Path(folder) / _ROWS, "wb") as target:
                        shutil.copyfileobj(stream, target)
            copy = open_database(f"sqlite:///{Path(folder) / _ROWS}")
            rows = copy_database(copy, engine)
            missing = tuple(digest for digest in _read_digests(copy) if not store.path(digest).exists())
            copy.dispose()
    except (tarfile.TarError, EOFError, json.JSONDecodeError) as error:
        raise PatchgenError(f"it is not a backup, or it is damaged: {error}", Location(str(path))) from None
    except StoreError:
        raise
    except DatabaseError as error:
        raise PatchgenError(f"the backup cannot be restored: {describe_cause(error)}", Location(str(path))) from None
    except OSError as error:
        raise PatchgenError(f"the backup cannot be read: {error.strerror or error}", Location(str(path))) from None
    return BackupSummary(revision, rows, files, missing)


def _read_digests(copy: Engine) -> list[str]:
    with copy.connect() as connection:
        return list(connection.scalars(select(Artifact.digest).order_by(Artifact.digest)))


def _write_archive(
    target: Path, about: Mapping[str, str | int], rows: Path, store: Store, digests: list[str]
) -> list[str]:
    missing = []
    with open(target, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        with tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as archive:
            _add(archive, _ABOUT, json.dumps(about).encode())
            archive.add(rows, _ROWS)
            for digest in digests:
                try:
                    _add(archive, f"files/{digest[:2]}/{digest}", store.get(digest))
                except StoreError:
                    missing.append(digest)
        file.flush()
        os.fsync(file.fileno())
    return missing


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def _check_about(archive: tarfile.TarFile, path: Path) -> str:
    """The revision of a backup's tables; a PatchgenError where it is none that can be read here."""
    first = archive.next()
    if first is None or first.name != _ABOUT:
        raise PatchgenError("it is not a backup of the service", Location(str(path)))
    about = json.loads(_read_member(archive, first))
    revision = str(about.get("revision"))
    if about.get("format") != _FORMAT or revision not in known_revisions():
        message = f"it is a backup of a later version of the service, which knows more than revision {head_revision()}"
        raise PatchgenError(f"{message}: it is of {revision}", Location(str(path)), "Restore it with that version.")
    return revision


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(member)
    if stream is None:
        raise PatchgenError(f"'{member.name}' in the backup is no file")
    return stream.read()
