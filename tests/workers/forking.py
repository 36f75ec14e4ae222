"""A fork server that costs little, and what becomes of processes."""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Callable
from pathlib import Path

PREPARATION = f"{__name__}:prepare"


def prepare() -> None:
    """Import a little, and look for what is not there."""
    importlib.import_module("decimal")
    for name in ("numpy.random", "acme_accelerator"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def fail() -> None:
    """As where there is no torch."""
    raise ImportError("no torch")


def is_running(pid: int) -> bool:
    """Whether a process is there and not just to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def until(is_so: Callable[[], bool], seconds: float = 60) -> bool:
    """Whether it comes to be so."""
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(0.01)
    return is_so()
