"""The other side of :class:`~patchgen_core.checks.running.ahead.ItemsAhead`: what a process does with an item."""

from __future__ import annotations

import functools
import importlib
import platform
import time
from dataclasses import replace
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
        if request.is_elsewhere:
            _refuse_machine(check)
        results = tuple(map(pack, check.run(request.path, request.item)))
        problems: tuple[Problem, ...] = ()
        asked = check.take_asked(request.path)
    except PatchgenError as error:
        results, problems, asked = (), error.problems, frozenset()
    except BaseException:
        return ItemAnswer()
    seconds = time.perf_counter() - start
    return ItemAnswer(results, problems, seconds, _opened(session, request.path), asked)


@functools.lru_cache(maxsize=1)
def _session(home: Project | None, settings: Settings, named: tuple[Path, ...]) -> Session:
    return Session(home, settings, by_folder=True, named=named)


@functools.lru_cache(maxsize=32)
def _check(session: Session, reference: str) -> Check:
    module, _, name = reference.partition(":")
    check: Check = getattr(importlib.import_module(module), name)(session)
    return check


@functools.lru_cache(maxsize=32)
def _refuse_machine(check: Check) -> None:
    """Raise a PatchgenError where this machine lacks what the check needs; what it has is looked at once."""
    try:
        check.refuse_machine(check.session.home)
    except PatchgenError as error:
        node = f"the node '{platform.node()}' of the cluster"
        problems = [replace(problem, message=f"{node} is refused: {problem.message}") for problem in error.problems]
        raise PatchgenError.from_problems(problems) from None


def _opened(session: Session, path: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(session.opened_files(session.project(path))))
    except PatchgenError:
        return ()
