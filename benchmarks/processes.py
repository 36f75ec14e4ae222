"""Whole processes, measured: seconds, and memory of one process and of a tree of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

_MIB = 2**20
_RSS_UNIT = 1024 if sys.platform == "linux" else 1
_BETWEEN_SAMPLES = 0.004


class Usage(NamedTuple):
    """What a process and its children took.

    Attributes:
        seconds: from its start to its end.
        size: the MiB of the largest of them.
        cpu: processor seconds of all of them, which other work on the machine changes less.
    """

    seconds: float
    size: float
    cpu: float


def measure(command: list[str], root: Path, environment: Mapping[str, str] | None = None, code: int = 0) -> Usage:
    """Run a process.

    Raises:
        SystemExit: it ends with another exit code than this.
    """
    started = time.perf_counter()
    with subprocess.Popen(command, cwd=root, env=_with_bytecode(environment), stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        taken = time.perf_counter() - started
        _finish(process, status, code)
    return Usage(taken, usage.ru_maxrss * _RSS_UNIT / _MIB, usage.ru_utime + usage.ru_stime)


def _with_bytecode(environment: Mapping[str, str] | None) -> dict[str, str]:
    """An environment in which modules are compiled once, as for most users."""
    given = os.environ if environment is None else environment
    return {name: value for name, value in given.items() if name != "PYTHONDONTWRITEBYTECODE"}


def tree_memory(command: list[str], root: Path, environment: Mapping[str, str] | None = None) -> float | None:
    """The MiB that a process and its descendants hold together at their peak; None where there is no ``/proc``.

    Memory that processes share counts once (PSS). Sampling slows the processes down: take no times of such a run.
    """
    if not Path("/proc/self/smaps_rollup").is_file():
        return None
    peak = 0
    with subprocess.Popen(command, cwd=root, env=_with_bytecode(environment), stdout=subprocess.DEVNULL) as process:
        while True:
            ended, status, _ = os.wait4(process.pid, os.WNOHANG)
            if ended:
                _finish(process, status, 0)
                return peak / _MIB
            peak = max(peak, sum(map(_proportional_size, _tree(process.pid))))
            time.sleep(_BETWEEN_SAMPLES)


def descendants_memory(process: int) -> float | None:
    """The MiB that all processes below one hold together now; None where there is no ``/proc``."""
    if not Path("/proc/self/smaps_rollup").is_file():
        return None
    return sum(map(_proportional_size, _tree(process) - {process})) / _MIB


def descendants_cpu(process: int) -> float:
    """The processor seconds that all processes below one have taken, with those of them that have ended."""
    ticks = 0
    for each in _tree(process) - {process}:
        with contextlib.suppress(OSError):  # it has ended
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a fresh process: the peak memory of later ones starts at that of this process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _finish(process: subprocess.Popen[bytes], status: int, code: int) -> None:
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != code:
        raise SystemExit(f"{process.args!r} ended with {process.returncode}, not with {code}")


def _tree(root: int) -> set[int]:
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parents[int(entry)] = int(Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:  # it has ended
                continue
    tree, before = {root}, 0
    while len(tree) > before:
        before = len(tree)
        tree |= {process for process, parent in parents.items() if parent in tree}
    return tree


def _proportional_size(process: int) -> int:
    try:
        rows = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    return next((int(row.split()[1]) * 1024 for row in rows if row.startswith("Pss:")), 0)
