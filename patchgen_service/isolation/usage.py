"""What the processes of a command use up."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PARENT, _THREADS = 1, 17
"""Where ``/proc/PID/stat`` has these, counted from behind the name of the program."""
_RESIDENT, _SHARED = 1, 2


@dataclass(frozen=True)
class Usage:
    """What a process and its descendants use: how many they are, threads included, and bytes of memory."""

    processes: int
    memory: int
    pids: tuple[int, ...]


def measure_processes(root: int) -> Usage:
    """The usage of the process ``root`` and all that it started; what ends meanwhile does not count."""
    children: dict[int, list[int]] = {}
    threads: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _read_fields(int(entry))) is not None:
            children.setdefault(int(fields[_PARENT]), []).append(int(entry))
            threads[int(entry)] = int(fields[_THREADS])
    family = [root]
    for pid in family:  # which grows meanwhile: parents come before their children
        family += children.get(pid, ())
    return Usage(sum(threads.get(pid, 0) for pid in family), sum(map(_measure_memory, family)), tuple(family))


def _read_fields(pid: int) -> list[str] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _measure_memory(pid: int) -> int:
    """Bytes that are the process's own: what it shares with others, such as libraries, is left out."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0
    return (int(pages[_RESIDENT]) - int(pages[_SHARED])) * _PAGE


def measure_folder(folder: Path) -> int:
    """Bytes that the files below a folder take."""
    size, todo = 0, [os.fspath(folder)]
    while todo:
        try:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
                    else:
                        size += entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError:  # removed meanwhile
            continue
    return size
