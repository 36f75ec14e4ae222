"""Checks configs; run as a script by :mod:`patchgen_core.workers.pool`.

A line of standard input is a request, answered by one line of standard output, both JSON.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import pickle
import sys
from typing import Any


def serve() -> None:
    """Answer requests until standard input ends."""
    gc.disable()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what is printed is no answer
    for line in sys.stdin:
        request = json.loads(line)
        sys.path[:] = request["search"]
        answers.write(json.dumps(_answer(request["asked"])) + "\n")
        answers.flush()


def _answer(asked: str) -> dict[str, Any]:
    from patchgen_core.build.cache import Cache
    from patchgen_core.checks.checked_in.compare import bare, check
    from patchgen_core.errors import PatchgenError
    from patchgen_core.workers.pool import pack, unpack

    selection, cache_folder = unpack(asked)
    cache = Cache(selection.project, cache_folder) if cache_folder is not None else None
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            report = check(selection, cache=cache)
    except PatchgenError:
        return {}  # the process that asked runs into the same, and tells it
    results = tuple(map(bare, report.results))
    del report
    gc.collect()
    return {"results": pack(pickle.dumps(results)), "said": said.getvalue()}


if __name__ == "__main__":
    serve()
