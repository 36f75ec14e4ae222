"""Folders that are sent to the nodes of a cluster beside the project: as an archive, which each node unpacks once."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from patchgen_core.files import digest

_LEFT_OUT = ("__pycache__", ".git")


def pack_folder(folder: Path, names: Iterable[str]) -> bytes:
    """An archive of what is called so in a folder, with everything below; the same for the same contents."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in sorted(names):
            for file in _files(folder / name):
                info = zipfile.ZipInfo(file.relative_to(folder).as_posix())
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, file.read_bytes())
    return stream.getvalue()


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files: list[Path] = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        files += [Path(folder, name) for name in sorted(names)]
    return files


def unpack_folder(archive: bytes) -> str:
    """The folder of this machine that holds what is in an archive; processes share it."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    home = Path(tempfile.gettempdir(), f"patchgen-sent-{user}")
    home.mkdir(mode=0o700, exist_ok=True)
    if hasattr(os, "getuid") and home.stat().st_uid != user:  # what others wrote is not imported
        home = Path(tempfile.mkdtemp(prefix="patchgen-sent-"))
    folder = home / digest(archive)[:32]
    if not folder.is_dir():
        part = Path(tempfile.mkdtemp(dir=home))
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            opened.extractall(part)
        try:
            part.rename(folder)
        except OSError:  # another process was first
            shutil.rmtree(part)
    return str(folder)
