"""Which files a worker opens to read, modules among them, for what keeps results and must know what they come from."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterable

_STANDARD = os.path.realpath(sysconfig.get_path("stdlib"))
_SYSTEM = ("/proc/", "/dev/", "/sys/")
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_opened: dict[str, None] = {}
_own: dict[str, None] = {}


@functools.cache
def watch_opened_files() -> None:
    """From now on note what this process opens."""
    sys.addaudithook(_note)


def list_opened_files() -> list[str]:
    """The files that this process has opened, and those added; none of the system or of what is installed."""
    for path in list(_opened):
        del _opened[path]
        source = _source_of(path)
        if not _is_elsewhere(source) and os.path.isfile(source):  # a name may be relative to a folder that is open
            _own[source] = None
    return list(_own)


def add_opened_files(paths: Iterable[str]) -> None:
    """Count files that processes of this one have opened among its own."""
    _own.update(dict.fromkeys(paths))


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open":
        path, mode, *_ = arguments
        if isinstance(path, (str, bytes)) and (mode is None or (isinstance(mode, str) and {"r", "+"} & {*mode})):
            _opened[os.path.abspath(os.fsdecode(path))] = None


def _source_of(path: str) -> str:
    """The module that a file of bytecode was made from."""
    try:
        return importlib.util.source_from_cache(path) if path.endswith(".pyc") else path
    except ValueError:
        return path


def _is_elsewhere(path: str) -> bool:
    return path.startswith((*_SYSTEM, _STANDARD + os.sep)) or is_installed(path)


def is_installed(path: str) -> bool:
    """Whether a file is one of an installed package."""
    return any(part in path for part in _INSTALLED)
