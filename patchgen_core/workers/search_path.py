"""The search path that a process hands on to those that it starts."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

_OWN_ROOT = str(Path(__file__).resolve().parents[2])


def search_path(roots: Iterable[str | Path]) -> list[str]:
    """``sys.path`` for a worker: folders that come first, and those of this process."""
    return list(dict.fromkeys([*map(str, roots), *map(os.path.abspath, sys.path)]))


def start_path(roots: Iterable[str | Path] = ()) -> list[str]:
    """That, and where this package is: for a process that is about to import it."""
    return [*search_path(roots), _OWN_ROOT]


@contextlib.contextmanager
def import_first(folders: Iterable[str | Path]) -> Iterator[None]:
    """Have processes that start now import from some folders before others, such as that of an editable install."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, folders), *([before] if before else [])])
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
