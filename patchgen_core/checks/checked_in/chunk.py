"""What a worker does to check configs; see :mod:`patchgen_core.checks.checked_in.parallel`."""

from __future__ import annotations

import contextlib
import gc
import io

from patchgen_core.build.cache import Cache
from patchgen_core.checks.checked_in.compare import bare, check
from patchgen_core.checks.checked_in.parallel import Chunk, ChunkReport


def check_chunk(chunk: Chunk) -> ChunkReport:
    """Check the configs of a chunk together; a PatchgenError where ruff cannot run."""
    gc.disable()  # syntax trees set the search for cycles off again and again, which finds none
    cache = Cache(chunk.selection.project, chunk.cache_folder) if chunk.cache_folder is not None else None
    with contextlib.redirect_stderr(io.StringIO()) as stderr:
        report = check(chunk.selection, cache=cache)
    results = tuple(map(bare, report.results))
    del report
    gc.collect()
    return ChunkReport(results, stderr.getvalue())
