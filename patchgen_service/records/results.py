"""Results of a run: the one way in, which may be repeated, and the way back to the whole result."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from patchgen_core.checks.result import BAD, CheckResult, clean, pack, unpack
from patchgen_core.files import text_digest
from patchgen_service.database.statements import split
from patchgen_service.database.tables import Result, Run
from patchgen_service.database.words import UNFINISHED
from patchgen_service.records.changes import IS_RED, find_red, is_compared, name_change
from patchgen_service.records.files import keep_file
from patchgen_service.records.runs import RunEnded, lock_run
from patchgen_service.records.verdicts import ANSWERS
from patchgen_service.store import Store, StoreError

_LONGEST = {"config": 300, "path": 1000, "item": 300, "check": 100}
_HEADLINE = 1000
NO_VERDICT = ("the check did not finish: ", "no process to run models in can be started")
"""How errors begin that say nothing of the config."""
ENDED_FROM_OUTSIDE = re.compile(r"its process has ended by SIG(KILL|TERM|INT|HUP)\b")
"""How a check ends that somebody ended: the system for lack of memory, or whoever stopped the run."""
_LARGEST = 2**31 - 1


def add_results(
    session: Session,
    store: Store,
    run: Run,
    project: str,
    packed: Iterable[Mapping[str, Any]],
    now: datetime,
) -> Sequence[Result]:
    """Remember results of a run, as :func:`patchgen_core.checks.result.pack` makes them, and return the new ones.

    ``project`` is its folder in the repository, and paths are relative to the repository. A result that was handed in
    before changes nothing; if it came to something else then, it is flaky. All are remembered, or none: a ValueError
    names the first that is no result, RunEnded is raised for a run that has ended and results that are new, a
    StoreError where the disk is full.
    """
    rows = list(
        {row["key"]: row for row in (_read(project, number, data) for number, data in enumerate(packed))}.values()
    )
    keys = [row["key"] for row in rows]
    locked = lock_run(session, run.id)
    before = _known(session, run.id, keys)
    fresh = [row for row in rows if row["key"] not in before]
    repeated = [row for row in rows if row["key"] in before and _says_otherwise(before[row["key"]], row)]
    if not fresh and not repeated:
        return ()
    if locked.status not in UNFINISHED:
        if not fresh:
            return ()
        raise RunEnded(locked)
    locked.heard = now
    _store_whole(session, store, run.id, [*fresh, *repeated], now)
    red = find_red(session, locked, keys)
    for row in (*fresh, *repeated):
        change = name_change(row["status"], row["is_infrastructure"], row["key"] in red)
        row |= {"run_id": run.id, "change": (change or "") if is_compared(locked) else "", "received": now}
    for row in repeated:
        _repeat(before[row["key"]], row)
    return session.scalars(insert(Result).returning(Result), fresh).all() if fresh else ()


def turned_red(session: Session, run_id: str, new: Sequence[Result]) -> bool:
    """Whether new results are the first of a run that are red."""
    red = [result.id for result in new if result.status in BAD and not result.is_infrastructure]
    before = select(Result.id).where(Result.run_id == run_id, IS_RED, Result.id.not_in(red)).limit(1)
    return bool(red) and session.scalar(before) is None


def read_result(store: Store, result: Result) -> CheckResult:
    """The whole result of a row; a StoreError where it is no longer kept, or damaged."""
    if not result.data:
        raise StoreError(f"the whole result of {result.item} is no longer kept")
    packed = json.loads(gzip.decompress(store.get(result.data)))
    return unpack(packed[result.position])


def result_key(project: str, path: str, config: str, item: str) -> str:
    """What stands for an item of the gate over all runs of a repository."""
    return text_digest("\0".join((project, path, config, item)))


def _read(project: str, number: int, data: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a packed result, and as ``whole`` all of it; a ValueError where it is none."""
    try:
        result = unpack(_without_nul(data))
    except ValueError as error:
        raise ValueError(f"result {number} is none: {error}") from None
    item = result.name
    for name, text in (("config", result.config), ("path", result.path), ("item", item), ("check", result.check)):
        if len(text) > _LONGEST[name]:
            raise ValueError(f"result {number} is none: its {name} has more than {_LONGEST[name]} characters")
    path = PurePosixPath(result.path)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"result {number} is none: its path '{result.path}' does not start from the repository")
    whole = pack(result)
    return {
        "key": result_key(project, result.path, result.config, item),
        "project": project,
        "config": result.config,
        "path": result.path,
        "line": min(max(result.line, 0), _LARGEST),
        "check": result.check,
        "item": item,
        "status": result.status,
        "is_flaky": False,
        "is_infrastructure": is_no_verdict(result),
        "headline": clean(result.headline)[:_HEADLINE],
        "causes": list(dict.fromkeys(cause.kind for cause in result.causes)),
        "figures": {name: float(figure) for name, figure in result.figures.items()},
        "seconds": result.seconds if math.isfinite(result.seconds) else 0.0,
        "whole": whole,
    }


def is_no_verdict(result: CheckResult) -> bool:
    """Whether a check could not be done, for reasons that say nothing of the config."""
    messages = [problem.message for problem in result.errors]
    return bool(messages) and all(text.startswith(NO_VERDICT) or ENDED_FROM_OUTSIDE.search(text) for text in messages)


def _without_nul(value: Any) -> Any:
    """JSON without the character that PostgreSQL has no place for."""
    if isinstance(value, str):
        return value.replace("\0", "\\x00")
    if isinstance(value, Mapping):
        return {_without_nul(key): _without_nul(entry) for key, entry in value.items()}
    return [_without_nul(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def _known(session: Session, run_id: str, keys: Sequence[str]) -> dict[str, Result]:
    rows: dict[str, Result] = {}
    for part in split(keys):
        results = session.scalars(select(Result).where(Result.run_id == run_id, Result.key.in_(part)))
        rows |= {result.key: result for result in results}
    return rows


def _store_whole(session: Session, store: Store, run_id: str, rows: Sequence[dict[str, Any]], now: datetime) -> None:
    """Store the whole results of rows in one file, and note in the rows where they are."""
    text = json.dumps([row.pop("whole") for row in rows], separators=(",", ":"), sort_keys=True)
    name = text_digest(text)[:16]
    data = keep_file(session, store, run_id, "result", name, gzip.compress(text.encode(), mtime=0), now)
    for position, row in enumerate(rows):
        row |= {"data": data, "position": position}


def _says_otherwise(known: Result, row: Mapping[str, Any]) -> bool:
    """Whether an item that was done again came to another verdict, or to one at all."""
    if row["is_infrastructure"] or row["status"] not in ANSWERS:
        return False
    return known.is_infrastructure or known.status != row["status"]


def _repeat(known: Result, row: Mapping[str, Any]) -> None:
    """Take another verdict on an item: beside one before, the red one stays to be looked at, and is flaky."""
    had_verdict = known.status in ANSWERS and not known.is_infrastructure
    if not had_verdict or (row["status"] in BAD and known.status not in BAD):
        for name, value in row.items():
            setattr(known, name, value)
    known.is_flaky = had_verdict
