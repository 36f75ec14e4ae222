"""Reading and unpacking wheels. Nothing of them is installed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen_core.errors import Location, PatchgenError, display_path
from patchgen_core.upstream.module import normal_name

if TYPE_CHECKING:
    from zipfile import ZipFile

_DATA = re.compile(r"[^/]+\.data/(?:purelib|platlib)/")
"""Where a wheel may hold what belongs beside its other packages."""

_METADATA = re.compile(r"[^/]+\.dist-info/METADATA")


class DamagedWheel(PatchgenError):
    """A file is no wheel, or not a whole one."""


@dataclass(frozen=True)
class Wheel:
    """A wheel, with the name and version of its metadata.

    Attributes:
        files: where its files belong in a folder that it is unpacked to, with forward slashes; each with its name in
            the wheel and its size in bytes.
    """

    path: Path
    distribution: str
    version: str
    files: Mapping[str, tuple[str, int]] = field(repr=False)

    def unpack(self, folder: Path) -> None:
        """Write its files below a folder, where they are not there yet with their size; none if one is damaged.

        Raises:
            DamagedWheel: a file of it cannot be read.
            PatchgenError: a file cannot be written.
        """
        lacking = [file for file, (_, size) in self.files.items() if _size(folder / file) != size]
        if lacking:
            with _opened(self.path) as archive:
                contents = {file: archive.read(self.files[file][0]) for file in lacking}
            for file, data in contents.items():
                _write(folder / file, data)


def package_name(distribution: str) -> str:
    """The package that a distribution of this name is expected to hold."""
    return re.sub(r"[-.]+", "_", distribution)


def read_wheel(path: Path, distribution: str) -> Wheel:
    """Read what a wheel, which should be of a distribution, holds.

    Raises:
        DamagedWheel: it is no wheel.
        PatchgenError: it is not there, is of another distribution, or holds other files than such a wheel does.
    """
    path_text = display_path(path)
    if path.is_dir():
        raise PatchgenError(f"'{path_text}' is a folder, not a wheel", hint="A folder is given with --source.")
    package = package_name(distribution)
    with _opened(path) as archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]
        metadata = [info.filename for info in infos if _METADATA.fullmatch(info.filename)]
        if len(metadata) != 1:
            raise DamagedWheel(f"'{path_text}' is not a wheel: it holds no metadata of a distribution")
        name, version = _name_and_version(archive.read(metadata[0]).decode("utf-8", "replace"))
    if not name or not version:
        raise DamagedWheel(f"'{path_text}' is not a wheel: its metadata lacks a name or a version")
    if normal_name(name) != normal_name(distribution):
        raise PatchgenError(
            f"'{path_text}' is a wheel of {name} {version}, not of {distribution}",
            hint=f"Give a wheel of {distribution}.",
        )
    files = {}
    for info in infos:
        place = _DATA.sub("", info.filename, count=1) if _DATA.match(info.filename) else info.filename
        if ".data/" not in place.partition("/")[0] + "/":
            _check_place(path, place)
            files[place] = (info.filename, info.file_size)
    if not any(place.startswith(f"{package}/") and place.endswith(".py") for place in files):
        raise PatchgenError(f"'{path_text}', a wheel of {name} {version}, holds no package '{package}'")
    return Wheel(path, name, version, files)


def _check_place(path: Path, place: str) -> None:
    if any(part in ("", ".", "..") for part in place.split("/")) or set(place) & set('\\:"<>|?*\0'):
        message = f"'{display_path(path)}' is not a sound wheel: it holds a file '{place}', which no package has"
        raise PatchgenError(message, hint="Nothing of it was unpacked.")


@contextmanager
def _opened(path: Path) -> Iterator[ZipFile]:
    """A wheel, open for reading; what goes wrong meanwhile becomes an error that names it."""
    import struct
    import zlib
    from zipfile import BadZipFile, ZipFile

    try:
        with ZipFile(path) as archive:
            yield archive
    except FileNotFoundError:
        raise PatchgenError(f"there is no wheel '{display_path(path)}'") from None
    except (BadZipFile, zlib.error, struct.error, EOFError, LookupError, RuntimeError, ValueError) as error:
        reason = str(error).strip("'\" ").rstrip(".") or type(error).__name__
        message = f"'{display_path(path)}' is not a wheel, or is damaged: {reason}"
        raise DamagedWheel(message, hint="Get it again.") from None
    except OSError as error:
        raise PatchgenError(f"cannot be read: {error.strerror}", Location(str(path))) from None


def _name_and_version(metadata: str) -> tuple[str, str]:
    from email.parser import HeaderParser

    head = HeaderParser().parsestr(metadata)
    return str(head.get("Name", "")).strip(), str(head.get("Version", "")).strip()


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _write(path: Path, data: bytes) -> None:
    """Write a file as a whole: another process finds none or all of it."""
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except OSError as error:
        raise PatchgenError(f"cannot be written: {error.strerror}", Location(str(path))) from None
