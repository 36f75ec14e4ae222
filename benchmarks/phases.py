"""Where the time of one check goes, by clocks around what it calls."""

from __future__ import annotations

import gc
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Clocks:
    """Seconds by phase, none counted twice, and which of the clocked functions were called."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.uncalled: set[str] = set()
        self._started = time.perf_counter()
        self._inner = [0.0]

    def imported(self) -> None:
        """Count all until now as imports."""
        self.seconds["importing patchgen"] = time.perf_counter() - self._started

    def add(self, owner: Any, name: str, phase: str | Callable[..., str]) -> None:
        """Clock a function of a module or class.

        Raises:
            SystemExit: there is none of that name.
        """
        function = getattr(owner, name, None)
        place = f"{owner.__name__}.{name}"
        if function is None:
            raise SystemExit(f"benchmarks/phases.py clocks '{place}', and there is none")
        self.uncalled.add(place)

        def timed(*args: Any, **kwargs: Any) -> Any:
            self.uncalled.discard(place)
            self._inner.append(0.0)
            begin = time.perf_counter()
            result = function(*args, **kwargs)
            spent = time.perf_counter() - begin
            self.seconds[phase if isinstance(phase, str) else phase(*args)] += spent - self._inner.pop()
            self._inner[-1] += spent
            return result

        setattr(owner, name, timed)

    def stop(self) -> dict[str, float]:
        """The seconds of each phase.

        Raises:
            SystemExit: a function was never called.
        """
        rest = time.perf_counter() - self._started - sum(self.seconds.values())
        if self.uncalled:
            raise SystemExit(f"benchmarks/phases.py clocks {', '.join(sorted(self.uncalled))}, which is not called")
        return {**self.seconds, "everything else": rest}


def cold(root: Path) -> dict[str, float]:
    """The phases of a check in this process that finds no cache."""
    gc.disable()  # as ``patchgen`` does
    clocks = Clocks()
    from patchgen_core.build import artifacts, cache, normalize
    from patchgen_core.checks.checked_in import checking, making
    from patchgen_core.config import loading
    from patchgen_core.syntax import diffs

    clocks.imported()
    clocks.add(loading.Loader, "load", "loading configs")
    clocks.add(artifacts, "find_upstream", "finding upstream")
    clocks.add(artifacts, "make_plan", "planning")
    clocks.add(artifacts, "generate", "generating")
    clocks.add(artifacts, "normalize", "ruff: writing and reading files")
    clocks.add(normalize, "run_ruff", _ruff)
    clocks.add(diffs, "unified_diff", "making diffs")
    clocks.add(making, "compare", "comparing")
    clocks.add(checking, "find_orphans", "looking for orphans")
    clocks.add(cache.Cache, "keep", "keeping results")
    _check(root, checking, cache)
    return clocks.stop()


def unchanged(root: Path) -> dict[str, float]:
    """The phases of a check in this process that finds everything in the cache."""
    gc.disable()
    clocks = Clocks()
    from patchgen_core.build import cache
    from patchgen_core.checks.checked_in import checking
    from patchgen_core.project import project

    clocks.imported()
    clocks.add(project.Project, "find_configs", "finding configs")
    clocks.add(cache.Cache, "find", "looking results up")
    clocks.add(cache, "kept_version", "which ruff it is")
    clocks.add(checking, "find_orphans", "looking for orphans")
    _check(root, checking, cache)
    return clocks.stop()


def _ruff(arguments: list[str], *_: Any) -> str:
    return f"ruff {' '.join(arguments[:2])}"


def _check(root: Path, checking: Any, cache: Any) -> None:
    from patchgen_core.build.selection import Selection
    from patchgen_core.project.table import load_project

    project = load_project(root)
    report = checking.check(Selection(project), cache=cache.Cache(project))
    if report.exit_code:
        raise SystemExit(f"the check of {root} ended with {report.exit_code}")
