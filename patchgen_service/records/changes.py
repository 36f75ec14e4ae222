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
IS_GREEN = Result.status.in_(("clean", "fixed"))


def set_changes(session: Session, run: Run) -> None:
    """Set the change of every result of a run; of none where there is nothing to compare it with."""
    compared = [other for other in (run.baseline_id, run.previous_id) if other is not None]
    own = Result.run_id == run.id
    reds = select(Result.key).where(Result.run_id.in_(compared), IS_RED)
    changes: list[tuple[Change, ColumnElement[bool]]] = [
        ("new", IS_RED & Result.key.not_in(reds)),
        ("known", IS_RED & Result.key.in_(reds)),
        ("fixed", IS_GREEN & Result.key.in_(reds)),
    ]
    options = {"synchronize_session": "fetch"}
    session.execute(update(Result).where(own, Result.change != "").values(change=""), execution_options=options)
    for change, condition in changes if compared else ():
        session.execute(update(Result).where(own, condition).values(change=change), execution_options=options)


def read_red_keys(session: Session, run: Run, keys: Iterable[str]) -> set[str] | None:
    """Which of these were red in the runs that a run is compared with; None where it is compared with none."""
    compared = [other for other in (run.baseline_id, run.previous_id) if other is not None]
    if not compared:
        return None
    red: set[str] = set()
    for part in split(keys):
        red |= set(
            session.scalars(select(Result.key).where(Result.run_id.in_(compared), Result.key.in_(part), IS_RED))
        )
    return red


def name_change(status: str, is_infrastructure: bool, was_red: bool) -> Change | None:
    """What a result is beside one that was red, or was not."""
    if status in BAD and not is_infrastructure:
        return "known" if was_red else "new"
    return "fixed" if was_red and status in ("clean", "fixed") else None
