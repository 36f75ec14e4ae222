"""Which of this machine's processors a process runs on."""

from __future__ import annotations

import contextlib
import os


def list_processors() -> frozenset[int]:
    """Those that this process may run on; none where the system does not tell."""
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


def count_cpus() -> int:
    """How many processors this process may use."""
    return len(list_processors()) or os.cpu_count() or 1


def keep_on_processors(pid: int, processors: frozenset[int]) -> None:
    """Have a process, 0 for this one, run on some of them, with what it starts from then on; without any, or where the
    system does not allow it, nothing changes."""
    if processors and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(pid, processors)


def share_out(processors: frozenset[int], number: int) -> list[frozenset[int]]:
    """The share of each of so many processes: of as many processors, or of the one that several have to share."""
    own = sorted(processors)
    if not own:
        return [frozenset()] * number
    return [frozenset(own[place::number] or own[place % len(own) :][:1]) for place in range(number)]
