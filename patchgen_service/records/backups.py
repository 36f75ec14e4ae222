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
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine, select
from sqlalchemy.exc import DatabaseError, OperationalError

from patchgen_core.errors import Location, PatchgenError
from patchgen_service.database.copying import copy_database, require_empty
from patchgen_service.database.engine import describe_cause, open_database
from patchgen_service.database.revisions import head_revision
from patchgen_service.database.tables import Artifact
from patchgen_service.store import Store, StoreError

_FORMAT = 1
_ABOUT, _ROWS = "backup.json", "database.sqlite"
_FILE = re.compile(r"files/[0-9a-f]{2}/([0-9a-f]{64})")


@dataclass(frozen=True)
class BackupSummary:
    """What a backup holds.

    Attributes:
        rows: how many rows of each table.
        missing: digests of stored files that were gone or damaged, and are not in it.
    """

    rows: dict[str, int]
    files: int
    missing: tuple[str, ...] = ()


def write_backup(engine: Engine, store: Store, path: Path) -> BackupSummary:
    """Write a backup, while the service runs or not; a PatchgenError when the file cannot be written.

    Rows are those of one moment. Files that are removed as too old meanwhile are named as missing.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".backup-", dir=path.absolute().parent) as folder:
            copy = open_database(f"sqlite:///{Path(folder) / _ROWS}")
            rows = copy_database(engine, copy)
            with copy.connect() as connection:
                digests = list(connection.scalars(select(Artifact.digest).order_by(Artifact.digest)))
            copy.dispose()
            temporary = Path(folder) / "backup"
            missing = _write_archive(temporary, Path(folder) / _ROWS, store, digests)
            os.replace(temporary, path)
    except OSError as error:
        raise PatchgenError(f"the backup cannot be written: {error.strerror}", Location(str(path))) from None
    except OperationalError as error:  # of the copy, most likely, for which there is no room
        raise PatchgenError(f"the backup cannot be written: {describe_cause(error)}", Location(str(path))) from None
    return BackupSummary(rows, len(digests) - len(missing), tuple(missing))


def restore_backup(path: Path, engine: Engine, store: Store) -> BackupSummary:
    """Fill an empty database and the stored files from a backup, be it of an older version of the service.

    A PatchgenError when the file is no backup or damaged, or the database or the stored files are not empty; they
    then stay as they were.
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
            _check_format(archive, path)
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
            with copy.connect() as connection:
                digests = connection.scalars(select(Artifact.digest).order_by(Artifact.digest))
                missing = tuple(digest for digest in digests if not store.path(digest).exists())
            copy.dispose()
    except (tarfile.TarError, EOFError, json.JSONDecodeError) as error:
        raise PatchgenError(f"it is no backup, or damaged: {error}", Location(str(path))) from None
    except StoreError:
        raise
    except DatabaseError as error:
        raise PatchgenError(f"the backup cannot be restored: {describe_cause(error)}", Location(str(path))) from None
    except OSError as error:
        raise PatchgenError(f"the backup cannot be read: {error.strerror or error}", Location(str(path))) from None
    return BackupSummary(rows, files, missing)


def _write_archive(target: Path, rows: Path, store: Store, digests: list[str]) -> list[str]:
    missing = []
    with open(target, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        with tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as archive:
            _add(archive, _ABOUT, json.dumps({"format": _FORMAT, "revision": head_revision()}).encode())
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


def _check_format(archive: tarfile.TarFile, path: Path) -> None:
    first = archive.next()
    if first is None or first.name != _ABOUT:
        raise PatchgenError("it is no backup of the service", Location(str(path)))
    if json.loads(_read_member(archive, first)).get("format") != _FORMAT:
        raise PatchgenError("it is a backup of a later version of the service", Location(str(path)))


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(member)
    if stream is None:
        raise PatchgenError(f"'{member.name}' in the backup is no file")
    return stream.read()
