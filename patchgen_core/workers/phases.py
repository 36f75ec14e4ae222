"""Where the time of this process goes: seconds by phase, such as ``parity / references / forward``."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

SEPARATOR = " / "

_seconds: dict[str, float] = {}
_lock = threading.Lock()


class _Phases(threading.local):
    """The open phases of a thread, and for each of them, and before them for none, seconds counted inside."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.counted = [0.0]


_open = _Phases()


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Count the time inside; that of a phase in another counts for it alone, and its name follows the outer's."""
    start = time.perf_counter()
    _open.names.append(name)
    _open.counted.append(0.0)
    try:
        yield
    finally:
        path, inside = SEPARATOR.join(_open.names), _open.counted.pop()
        _open.names.pop()
        took = time.perf_counter() - start
        _add(path, took - inside)
        _open.counted[-1] += took


def count(seconds: Mapping[str, float]) -> None:
    """Count what another process took while this thread waited: as phases inside the one that is open."""
    for name, duration in seconds.items():
        _add(SEPARATOR.join([*_open.names, name]), duration)
        _open.counted[-1] += duration


def _add(path: str, seconds: float) -> None:
    with _lock:
        _seconds[path] = _seconds.get(path, 0.0) + seconds


def take() -> dict[str, float]:
    """The seconds of phases that have ended, which are forgotten."""
    with _lock:
        seconds = dict(_seconds)
        _seconds.clear()
    return seconds
