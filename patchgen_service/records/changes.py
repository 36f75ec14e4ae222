"""What is new, known or fixed in a run beside the runs that it is compared with."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session

from patchgen_core.checks.result import BAD
from patchgen_service.database.statements import split
from patchgen_service.database.tables import Result, Run
from patchgen_service.database.words import Change

IS_RED = Result.status.in_(BAD) & Result.is_infrastructure.is_(False)
_GREEN = ("clean", "fixed")


def set_changes(session: Session, run: Run) -> None:
    """Set the change of every result of a run; of none where there is nothing to compare it with."""
    own = Result.run_id == run.id
    was_red = _was_red(run)
    changes: list[tuple[Change, ColumnElement[bool]]] = [
        ("new", IS_RED & ~was_red),
        ("known", IS_RED & was_red),
        ("fixed", Result.status.in_(_GREEN) & was_red),
    ]
    options = {"synchronize_session": "fetch"}
    session.execute(update(Result).where(own, Result.change != "").values(change=""), execution_options=options)
    for change, condition in changes if is_compared(run) else ():
        session.execute(update(Result).where(own, condition).values(change=change), execution_options=options)


def is_compared(run: Run) -> bool:
    """Whether a run has others that it is compared with."""
    return run.baseline_id is not None or run.previous_id is not None


def find_red(session: Session, run: Run, keys: Iterable[str]) -> set[str]:
    """Which of these keys were red in the runs that a run is compared with."""
    red: set[str] = set()
    compared = [other for other in (run.baseline_id, run.previous_id) if other is not None]
    for part in split(keys) if compared else ():
        results = select(Result.key).where(Result.run_id.in_(compared), Result.key.in_(part))
        red |= set(session.scalars(results.where(_was_red(run))))
    return red


def name_change(status: str, is_infrastructure: bool, was_red: bool) -> Change | None:
    """What a result is beside one that was red, or was not."""
    if status in BAD and not is_infrastructure:
        return "known" if was_red else "new"
    return "fixed" if was_red and status in _GREEN else None


def _was_red(run: Run) -> ColumnElement[bool]:
    """Whether a result's item was red before: in the nearest run, or in the baseline where the nearest lacks it."""
    red, there = select(Result.key).where(IS_RED), select(Result.key).where(Result.is_infrastructure.is_(False))
    before = Result.key.in_(red.where(Result.run_id == run.previous_id).scalar_subquery())
    is_there = Result.key.in_(there.where(Result.run_id == run.previous_id).scalar_subquery())
    in_baseline = Result.key.in_(red.where(Result.run_id == run.baseline_id).scalar_subquery())
    return before | (~is_there & in_baseline)
