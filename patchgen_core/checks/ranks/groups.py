"""Asks ranks of this machine's CPU, of which each number has one group for all checks of a process."""

from __future__ import annotations

import atexit
import functools
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from patchgen_core.checks.fork_server import RUN_RANKS
from patchgen_core.checks.imports.module_text import given_texts
from patchgen_core.errors import Location, Problem
from patchgen_core.workers.phases import phase
from patchgen_core.workers.rank_group import RankGroup, RanksFailed, RankState
from patchgen_core.workers.stacks import find_collective, find_own_frame

_HANDLER = "patchgen_core.checks.ranks.answering:answer"


@dataclass(frozen=True)
class RankRequest:
    """Something for all ranks to do.

    Attributes:
        function: ``package.module:function`` of what does it, given the task and what the set-ups declare.
        task: a pickle, which needs the modules of ``texts``.
        texts: module, path and text of modules to import from a text.
        setups: references of functions that set up models.
    """

    function: str
    task: bytes
    texts: tuple[tuple[str, str, str], ...]
    setups: tuple[str, ...]


def ask_ranks(function: str, task: object, size: int, time_limit: float, setups: tuple[str, ...] = ()) -> list[Any]:
    """What the ``package.module:function`` makes of a task, on each of so many ranks; it is given what the set-ups
    declare as well.

    Raises:
        RanksFailed: one failed, or they took longer than ``time_limit`` seconds.
        PatchgenError: they cannot be started.
        Exception: the task cannot be sent: pickle says why.
    """
    request = RankRequest(function, pickle.dumps(task), tuple(given_texts()), setups)
    with phase("ranks"):
        return _group(size, setups).ask(request, time_limit)


def end_ranks(size: int, setups: tuple[str, ...] = ()) -> None:
    """End a group of ranks that may wait for each other; the next request starts it again."""
    _group(size, setups).close()


@functools.cache
def _group(size: int, setups: tuple[str, ...]) -> RankGroup:
    """The group of so many ranks that did these set-ups, which stays with this process."""
    group = RankGroup(_HANDLER, size, RUN_RANKS)
    atexit.register(group.close)
    return group


def explain_failure(failure: RanksFailed, doing: str, cannot: str) -> Problem:
    """The problem of ranks that have not answered. Its sentence begins with ``doing`` when their time was over, such
    as "applying the plan", and else with ``cannot``: "the plan cannot be applied"."""
    ranks = f"on {len(failure.states)} ranks"
    if failure.rank is not None:
        state = failure.states[failure.rank]
        standing = _standing([state]) if failure.how.startswith("is killed") and state.frames else ()
        excerpt = "\n".join(filter(None, [*standing, state.output]))
        return Problem(f"{cannot} {ranks}: rank {failure.rank} {failure.how}", _place(state), excerpt=excerpt)
    place = next((place for state in failure.states if (place := _place(state)) is not None), None)
    outputs = (state.output for state in failure.states if state.output)
    excerpt = "\n".join([*_standing(failure.states), *outputs])
    return Problem(f"{doing} {ranks} {failure.how}", place, excerpt=excerpt)


def _place(state: RankState) -> Location | None:
    frame = find_own_frame(state.frames) if not state.has_answered else None
    return Location(frame.file, frame.line) if frame is not None else None


def _standing(states: Sequence[RankState]) -> Iterator[str]:
    """A line for each rank: what it waits for, and on which line."""
    for state in states:
        if state.has_answered:
            yield f"rank {state.rank} has done its part"
            continue
        if not state.frames:
            yield f"rank {state.rank} does not report where it is"
            continue
        collective, frame = find_collective(state.frames), find_own_frame(state.frames) or state.frames[0]
        doing = f"is in {collective}" if collective else "stands"
        yield f"rank {state.rank} {doing}, {Location(frame.file, frame.line)}, in {frame.function}"
