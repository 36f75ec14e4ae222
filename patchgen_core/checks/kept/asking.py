"""What front ends ask of kept results: the results and the names of items, kept where they hold."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from patchgen_core.checks.check import Check
from patchgen_core.checks.kept.keeping import ORPHANS, KeptResults
from patchgen_core.checks.kept.watching import is_watching
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.session import Session
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.project.pyproject import PYPROJECT

ItemPlace = tuple[Check, Path, str]
"""An item: its check, the config file or ``pyproject.toml``, and its name."""

SWITCH = "PATCHGEN_KEEP_CHECKS"
"""The environment variable that, set to 0, has only results of the check of the drift kept."""


def kept_results(session: Session, path: Path) -> KeptResults | None:
    """What is kept for the project of a config; None where nothing is, or files are being rewritten."""
    try:
        project = session.project(path)
    except PatchgenError:  # the check says so
        return None
    return kept_of_project(session, project)


def kept_of_project(session: Session, project: Project) -> KeptResults | None:
    """What is kept for a project; None where nothing is, or files are being rewritten."""
    settings = session.settings
    if not settings.caching or settings.fix or settings.prune or os.environ.get(SWITCH) == "0":
        return None
    if project.upstream:  # another release than the one that models run with
        return None
    return session.resource(project, KeptResults, lambda: KeptResults(session, project))


def watch_code(session: Session) -> None:
    """Have processes that are started from now on note what they run of the session's project that looks at what no
    text tells; nothing where nothing is kept, or they do so already."""
    if session.home is None or is_watching():
        return
    kept = kept_of_project(session, session.home)
    if kept is not None:
        kept.watch_code()


def run_check(session: Session, check: Check, path: Path, item: str) -> tuple[CheckResult, ...]:
    """The results of an item: kept ones where they hold, else those of a run, which are kept if they are clean."""
    kept = kept_results(session, path)
    return session.run_item(check, path, item) if kept is None else kept.run(check, path, item)


def list_items(session: Session, check: Check, path: Path) -> list[str]:
    """The names of a check's items for a config file, or for the ``pyproject.toml`` of a project."""
    kept = kept_results(session, path)
    listing = check.project_items if path.name == PYPROJECT else check.items
    if kept is None:
        return list(listing(path))
    return kept.list_items(check, path)


def find_unlisted(session: Session, checks: Iterable[Check], paths: Iterable[Path]) -> list[Check]:
    """The checks of which the items of a file are not known: something has changed there, and most of them will have
    to run."""
    paths = list(paths)
    return [check for check in checks if not all(_is_listed(session, check, path) for path in paths)]


def _is_listed(session: Session, check: Check, path: Path) -> bool:
    kept = kept_results(session, path)
    return kept is not None and kept.find_names(check, path) is not None


def find_fresh(
    session: Session, items: Iterable[ItemPlace], begin: Callable[[list[ItemPlace]], None] | None = None
) -> list[ItemPlace]:
    """The items that have to run, of all that a session is to give results of: each a check, a file and a name.

    The session gets to know of which configs something has to be made. ``begin`` is told of those items that are known
    to have to run before anything is made for the others.
    """
    items = list(items)
    names: dict[Path, set[str]] = {}
    for check, path, _ in items:
        if path.name != PYPROJECT:
            names.setdefault(path, set()).add(check.name)
    before = dict(session.chosen)
    for path, checks in names.items():
        session.chosen[path] = before.get(path, set()) | checks
    _expect(session, items)
    waiting = {each for each in items if _has_to_wait(session, *each)}
    fresh = {each for each in items if each not in waiting and not _is_kept(session, *each)}
    if begin is not None and fresh:
        begin([each for each in items if each in fresh])
    fresh |= {each for each in waiting if not _is_kept(session, *each)}
    for path in names.keys() - before.keys() - {path for _, path, _ in fresh}:
        del session.chosen[path]
    return [each for each in items if each in fresh]


def is_everything_kept(session: Session, checks: Iterable[Check], paths: Iterable[Path]) -> bool:
    """Whether no check has to run, as far as that is known without listing the items of one."""
    items = []
    paths = list(paths)
    for check in checks:
        for path in paths:
            kept = kept_results(session, path)
            names = kept.find_names(check, path) if kept is not None else None
            if names is None:
                return False
            items += [(check, path, name) for name in names]
    for check, path, _ in items:
        session.chosen.setdefault(path, set()).add(check.name)
    return all(_is_kept(session, *item) for item in items if item[2] != ORPHANS)


def _expect(session: Session, items: Iterable[tuple[Check, Path, str]]) -> None:
    """Have what machines share asked for at once, and not item by item."""
    by_project: dict[KeptResults, list[tuple[Check, Path, str]]] = {}
    for item in items:
        kept = kept_results(session, item[1])
        if kept is not None and kept.shared is not None:
            by_project.setdefault(kept, []).append(item)
    for kept, of_project in by_project.items():
        kept.expect(of_project)


def _has_to_wait(session: Session, check: Check, path: Path, item: str) -> bool:
    kept = kept_results(session, path)
    return kept is not None and kept.hangs_on_making(check, path, item)


def _is_kept(session: Session, check: Check, path: Path, item: str) -> bool:
    kept = kept_results(session, path)
    return kept is not None and kept.find(check, path, item) is not None
