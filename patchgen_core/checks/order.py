"""In which order items run: what was red last time, then what is cheap. Reports keep the order of the items.

What is expensive stays together by config, because the checks of a config share what upstream's model computes.
Without an earlier run whose results are kept, items run in their own order.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from patchgen_core.checks.kept.asking import kept_results
from patchgen_core.checks.kept.entries import Past
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.session import Session
from patchgen_core.checks.shards import usual_seconds
from patchgen_core.errors import PatchgenError
from patchgen_core.project.pyproject import PYPROJECT

_LIGHT = 1.0
"""Seconds from which on an item counts as expensive."""
_MOST = 50_000
_Item = TypeVar("_Item")


def item_key(session: Session, path: Path, item: str) -> str:
    """What an item is called here, in whichever folder a run was started."""
    base = session.home.base if session.home is not None else path.parent
    return f"{Path(os.path.relpath(path, base)).as_posix()}::{item}"


def read_past(session: Session) -> dict[str, Past]:
    """What became of items when they ran last; nothing where no results are kept."""
    if session.home is None:
        return {}
    kept = kept_results(session, session.home.base / PYPROJECT)
    return dict(kept.store.past()) if kept is not None else {}


def keep_past(session: Session, results: Iterable[CheckResult]) -> None:
    """Keep what became of items for the order of the next run, where results are kept."""
    if session.home is None:
        return
    kept = kept_results(session, session.home.base / PYPROJECT)
    if kept is None:
        return
    new: dict[str, Past] = {}
    for result in results:
        key = item_key(session, Path(result.path), result.item.rpartition("::")[2].partition("@")[0])
        earlier = new.pop(key, Past(0.0, False))
        new[key] = Past(max(earlier.seconds, round(result.seconds, 2)), earlier.is_red or result.is_bad)
    before = {key: past for key, past in kept.store.past().items() if key not in new}
    try:
        kept.store.keep_past(dict([*before.items(), *new.items()][-_MOST:]))
    except PatchgenError:  # the next run goes by the names of checks
        return


def arrange(items: Sequence[tuple[str, _Item]], past: Mapping[str, Past]) -> list[_Item]:
    """Items, each with its key, in the order in which they are to run."""
    if not past:
        return [item for _, item in items]
    seconds = {key: past[key].seconds if key in past else usual_seconds(key) for key, _ in items}
    red = {key for key, _ in items if key in past and past[key].is_red}
    by_config: dict[str, float] = {}
    for key, _ in items:
        if key not in red and seconds[key] >= _LIGHT:
            by_config[_config(key)] = by_config.get(_config(key), 0.0) + seconds[key]
    places = {key: place for place, (key, _) in enumerate(items)}

    def rank(key: str) -> tuple[object, ...]:
        if key in red:
            return 0, seconds[key], places[key]
        if seconds[key] < _LIGHT:
            return 1, _size(seconds[key]), places[key]
        return 2, _size(by_config[_config(key)]), _config(key), _size(seconds[key]), places[key]

    return [item for _, item in sorted(items, key=lambda pair: rank(pair[0]))]


def _config(key: str) -> str:
    return key.rpartition("::")[0]


def _size(seconds: float) -> int:
    """How long something takes, to a power of two: what differs by less keeps its order from run to run."""
    return round(math.log2(max(seconds, 0.05)))
