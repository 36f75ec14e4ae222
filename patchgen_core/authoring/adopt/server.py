"""Runs patchers, each in a process that it may spoil; run as a script by ``adopting``.

A line of standard input is a request, answered by one line of standard output, both JSON.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def serve() -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what is printed is no answer
    for line in sys.stdin:
        request = json.loads(line)
        sys.path[:] = request.pop("search")
        answers.write(json.dumps(_answer(request)) + "\n")
        answers.flush()


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    from patchgen_core.authoring.adopt.effects import plain
    from patchgen_core.authoring.adopt.probe import probe
    from patchgen_core.errors import PatchgenError

    try:
        return {"probed": plain(probe(**request))}
    except PatchgenError as error:
        problem = error.problems[0]
        return {"error": [problem.message, problem.hint]}


if __name__ == "__main__":
    serve()
