"""Checking many configs in processes beside this one."""

from __future__ import annotations

import base64
import os
import pickle
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from patchgen_core.build.results import ConfigResult, Progress
from patchgen_core.build.selection import Selection
from patchgen_core.workers.processes import Server

AT_ONCE = 32
"""Configs that a worker checks together: enough for ruff's start not to count, few enough to fit into memory."""

_MOST = 8
_TIME_LIMIT = 3600.0
_SCRIPT = Path(__file__).parents[1] / "checks/checked_in/server.py"


def check_apart(
    selection: Selection, cache_folder: Path | None, progress: Progress | None
) -> dict[Path, list[ConfigResult]]:
    """Check config files in several processes; what they cannot do is left out.

    Args:
        selection, progress: as for :func:`~patchgen_core.checks.checked_in.compare.check`.
        cache_folder: where results are kept; None keeps nothing.

    Returns:
        The results of each file, without what they were made from.
    """
    paths = selection.find_configs()
    chunks = [replace(selection, configs=paths[first : first + AT_ONCE]) for first in range(0, len(paths), AT_ONCE)]
    found: dict[Path, list[ConfigResult]] = {}
    done = 0
    count = min(len(chunks), cpus(), _MOST)
    idle: SimpleQueue[Server] = SimpleQueue()
    with ThreadPoolExecutor(count) as pool, ExitStack() as servers:
        for _ in range(count):
            idle.put(servers.enter_context(Server(_SCRIPT, _TIME_LIMIT)))
        servers.callback(pool.shutdown, wait=False, cancel_futures=True)

        def ask(chunk: Selection) -> dict[str, Any]:
            server = idle.get()
            try:
                asked = pickle.dumps((chunk, cache_folder))
                return server.ask({"asked": pack(asked), "search": list(map(os.path.abspath, sys.path))})
            finally:
                idle.put(server)

        for chunk, answer in zip(chunks, pool.map(ask, chunks)):
            found |= _read(answer)
            done += len(chunk.configs or ())
            if progress is not None:
                progress(done, len(paths))
    return found


def pack(data: bytes) -> str:
    """Bytes as text for a line of JSON."""
    return base64.b64encode(data).decode("ascii")


def unpack(text: str) -> Any:
    """The object whose pickle a text holds; only ever one that a process of ours has sent."""
    return pickle.loads(base64.b64decode(text))


def _read(answer: dict[str, Any]) -> Iterator[tuple[Path, list[ConfigResult]]]:
    sys.stderr.write(answer.get("said", ""))
    results: list[ConfigResult] = unpack(answer["results"]) if "results" in answer else []
    by_path: dict[Path, list[ConfigResult]] = {}
    for result in results:
        by_path.setdefault(result.outcome.path, []).append(result)
    return iter(by_path.items())


def cpus() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
