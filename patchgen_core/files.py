"""Files as they are, and files written as a whole: a reader, or a run that is killed, finds old or new."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from glob import escape
from importlib.util import cache_from_source
from pathlib import Path

from patchgen_core.errors import Location, PatchgenError

FileState = tuple[int, int, int]
"""What tells whether a file was written since: its inode, when it was written, and its size."""


def file_state(path: str | Path) -> FileState | None:
    """What a file looks like; None where it cannot be seen."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def read_text(path: Path) -> str | None:
    """A file's text with its newlines as they are, None when there is none; a PatchgenError when it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8", errors="surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise PatchgenError(f"cannot be read: {error.strerror}", Location(str(path))) from None


def digest(data: bytes) -> str:
    """A hash that stands for some bytes."""
    return hashlib.sha256(data).hexdigest()


def text_digest(text: str) -> str:
    """A hash of what a file holds that a text was written into."""
    return digest(text.encode("utf-8", "surrogateescape"))


def short_hash(text: str) -> str:
    """Twelve hex digits that stand for a text."""
    return text_digest(text)[:12]


def file_digest(path: Path) -> str | None:
    """A hash of a file's contents; None when they cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return digest(file.read())
    except OSError:
        return None


def write_files(files: Iterable[tuple[Path, str]]) -> list[Path]:
    """Write the files whose text differs from what is there, and return them; a PatchgenError when one cannot be.

    Each is replaced as a whole: a reader, or a run that is killed, finds the old or the new text. All are
    prepared before the first one is replaced, so that a full disk or a missing permission shows before. Bytecode of a
    replaced module goes, so that nobody runs the old one.
    """
    prepared: list[tuple[Path, str]] = []
    tidied: set[Path] = set()
    done = []
    path = Path()
    try:
        for path, text in files:
            if not _holds(path, text):
                prepared.append((path, _prepare(path, text, tidied)))
        while prepared:
            path, temporary = prepared[0]
            os.replace(temporary, _target(path))
            _remove_bytecode(_target(path))
            prepared.pop(0)
            done.append(path)
    except OSError as error:
        raise PatchgenError(f"cannot be written: {error.strerror}", Location(str(path))) from None
    finally:
        for _, temporary in prepared:
            with suppress(OSError):  # its folder may have gone
                os.unlink(temporary)
    return done


def _holds(path: Path, text: str) -> bool:
    """Whether a file has a text; what is no file, or of another size, is not read for that."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    if _is_special(status) or (stat.S_ISREG(status.st_mode) and status.st_size != len(_encode(text))):
        return False
    return read_text(path) == text


def _is_special(status: os.stat_result) -> bool:
    """Whether it is something that reading would wait for, such as a pipe."""
    return not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode))


def _target(path: Path) -> Path:
    """What is replaced when a file is written: what a link leads to, but not a pipe or a device."""
    with suppress(OSError):
        if _is_special(os.stat(path)):
            return path
    return Path(os.path.realpath(path))


def _encode(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogateescape")


def _prepare(path: Path, text: str, tidied: set[Path]) -> str:
    """Write ``text`` beside ``path``, with its permissions; ``tidied`` are the folders that have no leftovers."""
    import tempfile

    target = _target(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.parent not in tidied:
        _remove_leftovers(target.parent)
        tidied.add(target.parent)
    handle, temporary = tempfile.mkstemp(prefix=f"{_temporary_prefix()}{os.getpid()}-", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_encode(text))
        umask = os.umask(0)
        os.umask(umask)
        mode = stat.S_IMODE(target.stat().st_mode) if target.is_file() else 0o666 & ~umask
        os.chmod(temporary, mode)
    except BaseException:
        os.unlink(temporary)
        raise
    return temporary


def _remove_bytecode(path: Path) -> None:
    """Remove what Python compiled a module to: of two texts of one size it keeps the older for a second."""
    if path.suffix != ".py":
        return
    for compiled in Path(cache_from_source(path)).parent.glob(f"{escape(path.stem)}.*.pyc"):
        with suppress(OSError):  # another process may have done so, or owns the folder
            compiled.unlink()


def _temporary_prefix() -> str:
    import platform

    return f".patchgen-{platform.node()}-"


def _remove_leftovers(folder: Path) -> None:
    """Remove what a run on this machine left that was killed while it wrote."""
    if os.name != "posix":
        return
    prefix = _temporary_prefix()
    for path in folder.glob(f"{prefix}*"):
        process = path.name.removeprefix(prefix).partition("-")[0]
        if process.isascii() and process.isdigit() and len(process) < 10 and not _is_alive(int(process)):
            path.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
        return stat.rpartition(")")[2].split()[0] not in ("Z", "X")  # ended, and nobody has asked for its status yet
    except ProcessLookupError:
        return False
    except OSError:  # another user's process, or a system without /proc
        return True
