"""Tries configs with releases; run as a script by :mod:`patchgen_core.upgrade.matrix.crew`.

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
    bench: dict[str, Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        sys.path[:] = request["search"]
        answers.write(json.dumps(_answer(request, bench)) + "\n")
        answers.flush()


def _answer(request: dict[str, str], benches: dict[str, Any]) -> dict[str, Any]:
    """The trials that are asked for; the bench of the last request is kept for the next one."""
    from patchgen_core.errors import PatchgenError
    from patchgen_core.upgrade.matrix.crew import make_bench
    from patchgen_core.workers.pool import pack, unpack

    asked = request["bench"]
    release, keys = unpack(request["asked"])
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # the process that asked has loaded the configs, too
            if asked not in benches:
                benches.clear()
                gc.unfreeze()
                gc.collect()
                benches[asked] = make_bench(*unpack(asked))
                benches[asked].prepare()
                gc.freeze()  # it stays: nothing of it is looked at when cycles are
            found = benches[asked].trials(release, keys)
    except PatchgenError:
        return {}  # the process that asked runs into the same, and tells it
    return {"trials": pack(pickle.dumps(found))}


if __name__ == "__main__":
    serve()
