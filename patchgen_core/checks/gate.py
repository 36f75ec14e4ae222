"""The gate: run these checks on these configs, and hand over the results as they come."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen_core.checks.check import Check
from patchgen_core.checks.fork_server import begin_imports
from patchgen_core.checks.kept.asking import ItemPlace, find_fresh, find_unlisted, list_items, run_check
from patchgen_core.checks.registry import CheckInfo
from patchgen_core.checks.result import CheckResult, pack, unpack
from patchgen_core.checks.session import Session
from patchgen_core.checks.starting import start_checks
from patchgen_core.checks.verdicts import judge_results
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.project.pyproject import PYPROJECT


@dataclass(frozen=True)
class Item:
    """One thing to run for a config file, or for the ``pyproject.toml`` of a project, such as ``parity[eager]``."""

    path: Path
    name: str
    check: Check


class Gate:
    """Checks for a session, run in their order.

    Args:
        jobs: how many processes run ahead what takes long; None for as many as there is room for.
        cluster: address of the Ray cluster that they are processes of; empty for this machine.
    """

    def __init__(self, session: Session, checks: Sequence[CheckInfo], jobs: int | None = 1, cluster: str = "") -> None:
        self.session, self.jobs, self.cluster = session, jobs, cluster
        self.checks = tuple(info.load()(session) for info in checks)

    def items(self, configs: Iterable[Path], projects: Iterable[Path] = ()) -> list[Item]:
        """What there is to run for config files, and for projects as a whole, given their folders. Where something
        has changed, what takes long to import begins to be imported."""
        paths = [*configs, *(folder / PYPROJECT for folder in projects)]
        if self._is_ahead:
            begin_imports(self.session, find_unlisted(self.session, self.checks, paths))
        listed = ((path, check, list_items(self.session, check, path)) for path in paths for check in self.checks)
        return [Item(path, name, check) for path, check, names in listed for name in names]

    def run(self, items: Sequence[Item], *, stops: bool = False) -> Iterator[CheckResult]:
        """Run items one after the other; yields the results of each as soon as it is done, with its seconds. With
        ``stops`` no more after a red one."""
        self.choose(items)
        for item in items:
            start = time.perf_counter()
            results = run_item(item, self.session)
            seconds = time.perf_counter() - start
            for result in results:
                yield replace(result, item=self.node_id(item), seconds=result.seconds or seconds)
            if stops and any(result.is_bad for result in results):
                return

    def refuse_machine(self, items: Iterable[Item]) -> None:
        """Raise a PatchgenError at once when the machine lacks what the settings ask for and an item has to run."""
        for check in dict.fromkeys(item.check for item in self._find_fresh(items)):
            if not (self.cluster and check.runs_ahead):
                check.refuse_machine(self.session.home)

    def choose(self, items: Iterable[Item]) -> None:
        """Note what is going to run: configs are made together, and what is slow to start is started."""
        fresh = self._find_fresh(items)
        start_checks(self.session, [(item.check, item.path, item.name) for item in fresh], self.jobs, self.cluster)

    def _find_fresh(self, items: Iterable[Item]) -> list[Item]:
        """The items of which no result is kept; the session gets to know which configs these are about."""
        places = [(item.check, item.path, item.name) for item in items]
        fresh = find_fresh(self.session, places, self._begin_imports)
        return [Item(path, name, check) for check, path, name in fresh]

    def _begin_imports(self, items: list[ItemPlace]) -> None:
        if self._is_ahead:
            begin_imports(self.session, (check for check, _, _ in items))

    @property
    def _is_ahead(self) -> bool:
        """Whether items may run in other processes of this machine."""
        return self.jobs != 1 and not self.cluster

    def node_id(self, item: Item) -> str:
        """An item's path from the project's root, and its name, as pytest calls it."""
        base = self.session.home.base if self.session.home is not None else Path.cwd()
        return f"{Path(os.path.relpath(item.path, base)).as_posix()}::{item.name}"


def run_item(item: Item, session: Session) -> tuple[CheckResult, ...]:
    """The results of an item; what prevents a check from being done is its result as well."""
    try:
        results = judge_results(run_check(session, item.check, item.path, item.name), item.name, session)
    except PatchgenError as error:
        results = (_error(item, session, error.problems),)
    except Exception as error:
        message = f"the check did not finish: {type(error).__name__}: {error}"
        results = (_error(item, session, (Problem(message),)),)
    return tuple(unpack(pack(result)) for result in results)  # as other processes see them


def _error(item: Item, session: Session, problems: tuple[Problem, ...]) -> CheckResult:
    return CheckResult(session.label(item.path), str(item.path), 0, item.check.name, "error", errors=problems)
