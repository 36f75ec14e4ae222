"""What the server knows of checks that have run: what is kept of them, and what it ran itself."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.settings import CONTRACT, DRIFT
from patchgen_core.checks.standing import Standing
from patchgen_core.errors import PatchgenError
from patchgen_core.workers.worker import WorkerDied
from patchgen_lsp.analyst import Analyst
from patchgen_lsp.request import Request

SECONDS = 60.0
"""How long what was read holds before it is read again: what is installed may change unseen."""
_SAVED = "a file was saved since"
_LIVE = (DRIFT, CONTRACT)
"""The checks whose findings are told of each text anew."""


@dataclass(frozen=True)
class _Run:
    """The results of a config's checks that the server ran, by their items, and how often files had changed then."""

    standings: tuple[Standing, ...]
    changes: int


class Standings:
    """The standings of the configs that are open, read beside everything else.

    Args:
        tell: called with a config of which something new is known.
    """

    def __init__(self, reader: Analyst, tell: Callable[[Path], Awaitable[None]]) -> None:
        self._reader, self._tell = reader, tell
        self._kept: dict[Path, tuple[Standing, ...]] = {}
        self._read: dict[Path, float] = {}
        self._runs: dict[Path, _Run] = {}
        self._changes = 0
        self._stale: set[Path] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def of(self, path: Path) -> tuple[Standing, ...]:
        """What is known of a config now; what is not, or was read long ago, is going to be."""
        if time.monotonic() - self._read.get(path, -SECONDS) >= SECONDS:
            self.refresh(path)
        run = self._runs.get(path)
        kept = {standing.item: standing for standing in self._kept.get(path, ())}
        if path in self._stale:  # until it is read again
            kept = {item: replace(each, changes=each.changes or (_SAVED,)) for item, each in kept.items()}
        for own in run.standings if run is not None else ():
            stale = replace(own, changes=own.changes or (_SAVED,))
            own = own if run is not None and run.changes == self._changes else stale
            other = kept.get(own.item)
            if other is None or not other.is_current or own.is_red:
                kept[own.item] = own
        return tuple(standing for standing in kept.values() if standing.check not in _LIVE)

    def note_change(self) -> None:
        """Files have changed on disk: what is known of configs is to be read again."""
        self._changes += 1
        self._stale |= self._kept.keys()
        self._read.clear()

    def note_run(self, path: Path, results: Iterable[CheckResult]) -> None:
        """Take what checks of a config came to, which ran just now."""
        by_item: dict[str, list[CheckResult]] = {}
        for result in results:
            by_item.setdefault(result.name, []).append(result)
        now = time.time()
        standings = [
            Standing(item, now, (), any(result.is_bad for result in of_item), tuple(of_item))
            for item, of_item in by_item.items()
            if not all(result.status == "skipped" for result in of_item)
        ]
        earlier = self._runs.get(path)
        others = [s for s in earlier.standings if s.item not in by_item] if earlier is not None else []
        if earlier is not None and earlier.changes != self._changes:
            others = [replace(standing, changes=(_SAVED,)) for standing in others]
        self._runs[path] = _Run((*standings, *others), self._changes)
        self.refresh(path)

    def refresh(self, path: Path) -> None:
        """Have what is kept of a config read, and nobody wait for it."""
        self._read[path] = time.monotonic()
        task = asyncio.get_running_loop().create_task(self._refresh(path))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def forget(self, path: Path) -> None:
        """A config was closed."""
        self._read.pop(path, None)
        self._kept.pop(path, None)

    async def _refresh(self, path: Path) -> None:
        standings: tuple[Standing, ...] = ()
        changes = self._changes
        with contextlib.suppress(PatchgenError, WorkerDied, OSError):  # the diagnostics say what is wrong
            standings = tuple(await self._reader.ask(Request("standings", path)))
        if changes != self._changes:
            self.refresh(path)
            return
        is_new = standings != self._kept.get(path, ()) or path in self._stale or path in self._runs
        self._kept[path] = standings
        self._stale.discard(path)
        if is_new:
            await self._tell(path)
