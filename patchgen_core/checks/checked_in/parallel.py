"""Checking many configs in workers."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen_core.build.results import ConfigResult, Progress
from patchgen_core.build.selection import Selection
from patchgen_core.workers.pool import WorkerPool
from patchgen_core.workers.processors import count_cpus

CHUNK_SIZE = 32
"""Configs that a worker checks together: enough for ruff's start not to count, few enough to fit into memory."""

_MOST_WORKERS = 8


@dataclass(frozen=True)
class ConfigChunk:
    """Configs for a worker to check, and the folder that results are kept in; None keeps nothing."""

    selection: Selection
    cache_folder: Path | None


@dataclass(frozen=True)
class ChunkReport:
    """The results of a chunk, without what they were made from, and what was written to standard error meanwhile."""

    results: tuple[ConfigResult, ...] = ()
    stderr: str = ""


def check_in_workers(chunk: ConfigChunk, progress: Progress | None) -> dict[Path, list[ConfigResult]]:
    """Check a chunk in smaller ones; the results by file. Files that workers cannot check are left out."""
    paths = chunk.selection.find_configs()
    starts = range(0, len(paths), CHUNK_SIZE)
    selections = [replace(chunk.selection, configs=paths[start : start + CHUNK_SIZE]) for start in starts]
    chunks = [replace(chunk, selection=selection) for selection in selections]
    results: dict[Path, list[ConfigResult]] = {}
    done = 0
    size = min(len(chunks), count_cpus(), _MOST_WORKERS)
    with WorkerPool("patchgen_core.checks.checked_in.checking:check_chunk", size) as pool:
        for report in pool.map(lambda part: pool.ask(part, ChunkReport), chunks):
            sys.stderr.write(report.stderr)
            for result in report.results:
                results.setdefault(result.outcome.path, []).append(result)
            done = min(done + CHUNK_SIZE, len(paths))
            if progress is not None:
                progress(done, len(paths))
    return results
