"""Stored files, each named by the SHA-256 of its bytes: written once, whole and for good, and checked when read."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from patchgen_core.errors import PatchgenError
from patchgen_core.files import digest as digest_of

_DIGEST = re.compile(r"[0-9a-f]{64}")
_SECONDS_OF_A_WRITE = 24 * 3600
"""After so long, a file that was being written is nobody's."""


class StoreError(PatchgenError):
    """A stored file that cannot be written, is not there, or is not what was stored."""


class Store:
    """The stored files of a folder, which is made when something is put into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, data: bytes) -> str:
        """Store bytes, and return their digest once they are on the disk; a StoreError when they cannot be."""
        digest = digest_of(data)
        path = self.path(digest)
        try:
            if not path.exists() or path.read_bytes() != data:
                self._write(path, data)
        except OSError as error:
            reason = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror
            raise StoreError(f"a file of {len(data)} bytes cannot be stored: {reason}") from error
        return digest

    def get(self, digest: str) -> bytes:
        """The bytes of a digest; a StoreError when they are gone or damaged."""
        try:
            data = self.path(digest).read_bytes()
        except OSError as error:
            reason = "it is no longer kept" if isinstance(error, FileNotFoundError) else error.strerror
            raise StoreError(f"the stored file {digest[:12]} cannot be read: {reason}") from None
        if digest_of(data) != digest:
            raise StoreError(f"the stored file {digest[:12]} is damaged: its bytes are not the ones that were stored")
        return data

    def path(self, digest: str) -> Path:
        """Where the bytes of a digest are, or would be; a StoreError when it is no digest."""
        if not _DIGEST.fullmatch(digest):
            raise StoreError(f"'{digest}' is no digest of a stored file")
        return self.folder / digest[:2] / digest

    def digests(self) -> Iterator[str]:
        """The digests of all stored files."""
        for path in self.folder.glob("??/*"):
            if _DIGEST.fullmatch(path.name):
                yield path.name

    def sweep(self, is_kept: Callable[[str], bool]) -> int:
        """Remove files that are not kept, and what writers that died have left; returns how many bytes that freed.

        Nobody may put a file meanwhile that is not kept yet: see :func:`patchgen_service.records.files.sweep_files`.
        """
        freed = 0
        for digest in list(self.digests()):
            if not is_kept(digest):
                freed += _remove(self.path(digest))
        for path in self.folder.glob("??/.new-*"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > _SECONDS_OF_A_WRITE:
                    freed += _remove(path)
        return freed

    def _write(self, path: Path, data: bytes) -> None:
        is_new_folder = not path.parent.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        _sync_folder(path.parent)
        if is_new_folder:
            _sync_folder(self.folder)


def _remove(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        size = path.stat().st_size
        path.unlink()
        return size
    return 0


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
