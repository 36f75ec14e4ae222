"""Python stacks as ``faulthandler`` writes them: where a process stands that can no longer say so."""

from __future__ import annotations

import os
import re
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass

_THREADS = r"(Current thread|Thread|Stack).*\(most recent call first\):"
_DUMP = re.compile(rf"^(Fatal Python error: .*|{_THREADS})$", re.MULTILINE)
_THREAD = re.compile(rf"^{_THREADS}(?:\n  .*)*", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)
_DISTRIBUTED = os.path.join("torch", "distributed") + os.sep
_COLLECTIVES = ("distributed_c10d.py", "_functional_collectives.py")
_AROUND = ("wrapper", "_call_impl", "__torch_dispatch__", "wait", "wait_tensor")


@dataclass(frozen=True)
class Frame:
    """A function that is running, and the line on which it stands."""

    file: str
    line: int
    function: str


def split_output(output: str) -> tuple[str, str]:
    """What a process wrote before its stack was dumped behind it, and the dump of one thread; that is empty where
    there is none."""
    dump = _DUMP.search(output)
    return (output[: dump.start()], _keep_one_thread(output[dump.start() :])) if dump else (output, "")


def _keep_one_thread(dump: str) -> str:
    """A dump with the thread that crashed alone, or with the main one where that runs no Python; the main thread is
    last."""
    threads = list(_THREAD.finditer(dump))
    running = [thread for thread in threads if _FRAME.search(thread[0])]
    if len(running) < 2:
        return dump
    chosen = next((thread for thread in running if thread[1] == "Current thread"), running[-1])
    return dump[: threads[0].start()] + chosen[0]


def read_frames(dump: str) -> tuple[Frame, ...]:
    """The frames of a dump of one thread, the innermost first."""
    return tuple(Frame(file, int(line), function) for file, line, function in _FRAME.findall(dump))


def find_collective(frames: Sequence[Frame]) -> str:
    """The function of torch.distributed that a stack stands in, as one writes it in code; empty for none.

    Of several, the outermost one that is a collective: ``all_to_all_single`` waits inside of ``wait``.
    """
    inner: list[Frame] = []
    for frame in frames:
        if not _is_torch(frame.file):
            break
        if _DISTRIBUTED in frame.file:
            inner.append(frame)
    named = [frame for frame in inner if frame.function not in _AROUND]
    collectives = [frame for frame in named if os.path.basename(frame.file) in _COLLECTIVES]
    return (collectives or named or inner)[-1].function if inner else ""


def find_own_frame(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame of code that is no library's: where a reader should look."""
    return next((frame for frame in frames if not is_library(frame.file)), None)


def is_library(file: str) -> bool:
    """Whether a file is Python's own, an installed package's or this one's, and no project's."""
    paths = sysconfig.get_paths()
    folders = [paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"], _OWN]
    parts = file.split(os.sep)
    return file.startswith("<") or "site-packages" in parts or any(file.startswith(f + os.sep) for f in folders)


def _is_torch(file: str) -> bool:
    return f"{os.sep}torch{os.sep}" in file


_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
