"""The other side of :class:`~patchgen_core.checks.running.ahead.ItemsAhead`: what a process does with an item."""

from __future__ import annotations

import functools
import importlib
import time
from pathlib import Path

from patchgen_core.checks.check import Check
from patchgen_core.checks.result import pack
from patchgen_core.checks.running.request import ItemAnswer, ItemRequest
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import Settings
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.project.project import Project


def answer(request: ItemRequest) -> ItemAnswer:
    """The results of an item, as :meth:`Check.run` gives them."""
    session = _session(request.home, request.settings, request.named)
    for path, names in request.chosen.items():
        session.chosen[path] = set(names)
    start = time.perf_counter()
    try:
        check = _check(session, request.check)
        results = tuple(map(pack, check.run(request.path, request.item)))
        problems: tuple[Problem, ...] = ()
    except PatchgenError as error:
        results, problems = (), error.problems
    except BaseException:
        return ItemAnswer()
    seconds = time.perf_counter() - start
    return ItemAnswer(results, problems, seconds, _opened(session, request.path))


@functools.lru_cache(maxsize=1)
def _session(home: Project | None, settings: Settings, named: tuple[Path, ...]) -> Session:
    return Session(home, settings, by_folder=True, named=named)


@functools.lru_cache(maxsize=32)
def _check(session: Session, reference: str) -> Check:
    module, _, name = reference.partition(":")
    check: Check = getattr(importlib.import_module(module), name)(session)
    return check


def _opened(session: Session, path: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(session.opened_files(session.project(path))))
    except PatchgenError:
        return ()
