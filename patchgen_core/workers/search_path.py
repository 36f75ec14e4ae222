"""The search path that a process hands on to those that it starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

_OWN_ROOT = str(Path(__file__).resolve().parents[2])


def search_path(roots: Iterable[str | Path]) -> list[str]:
    """``sys.path`` for a worker: folders that come first, and those of this process."""
    return list(dict.fromkeys([*map(str, roots), *map(os.path.abspath, sys.path)]))


def start_path(roots: Iterable[str | Path] = ()) -> list[str]:
    """That, and where this package is: for a process that is about to import it."""
    return [*search_path(roots), _OWN_ROOT]
