"""Where the time of this process goes: seconds by phase, such as ``parity / references / forward``."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

SEPARATOR = " / "

_seconds: dict[str, float] = {}
_open: list[str] = []
_counted = [0.0]  # of each open phase, and before them of none: seconds that have been counted inside


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Count the time inside; that of a phase in another counts for it alone, and its name follows the outer's."""
    start = time.perf_counter()
    _open.append(name)
    _counted.append(0.0)
    try:
        yield
    finally:
        path, inside = SEPARATOR.join(_open), _counted.pop()
        _open.pop()
        took = time.perf_counter() - start
        _seconds[path] = _seconds.get(path, 0.0) + took - inside
        _counted[-1] += took


def count(seconds: Mapping[str, float]) -> None:
    """Count what another process took while this one waited: as phases inside the one that is open."""
    for name, duration in seconds.items():
        path = SEPARATOR.join([*_open, name])
        _seconds[path] = _seconds.get(path, 0.0) + duration
        _counted[-1] += duration


def take() -> dict[str, float]:
    """The seconds of phases that have ended, which are forgotten."""
    seconds = dict(_seconds)
    _seconds.clear()
    return seconds
