"""One cause told once: heads that fail in the same way, at the same patch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from patchgen_core.errors import Problem, list_some

_PATHS = re.compile(r"'[\w.]+' (?=\(\w+\))")
"""The path of a module before its class, which is another one in each head."""
_MOST = 4


def join_causes(problems: Iterable[Problem], heads: Mapping[Problem, str]) -> tuple[Problem, ...]:
    """Problems of which those that a patch causes in several heads are one: that of the first head, which names the
    others.

    Args:
        heads: the heads of those problems that may be joined.
    """
    joined: list[Problem] = []
    others: dict[int, list[str]] = {}
    first_of: dict[object, int] = {}
    for problem in problems:
        head = heads.get(problem)
        if head is None or not problem.target:
            joined.append(problem)
            continue
        cause = (problem.location, problem.target, _without_head(problem.message, head))
        if cause in first_of:
            others[first_of[cause]].append(head)
        else:
            first_of[cause] = len(joined)
            others[len(joined)] = []
            joined.append(problem)
    for place, names in others.items():
        if names:
            hint = "\n  ".join(filter(None, [joined[place].hint, f"The same in {list_some(names, _MOST)}."]))
            joined[place] = replace(joined[place], hint=hint)
    return tuple(joined)


def _without_head(message: str, head: str) -> str:
    """What a message says, whichever head and batch it is about."""
    _, _, raised = message.partition(": the patched model raises ")
    return raised or _PATHS.sub("", message.removeprefix(head))
