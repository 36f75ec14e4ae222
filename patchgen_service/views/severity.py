"""Which of several statuses counts."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import ColumnElement, case, func

from patchgen_service.database.tables import Result

WORST_FIRST = ("error", "drifted", "failed", "fixed", "skipped", "clean")


def worst(statuses: Iterable[str]) -> str:
    """The worst of statuses of results, of which there is at least one."""
    return min(statuses, key=WORST_FIRST.index)


def worst_rank() -> ColumnElement[int]:
    """The place of the worst status of a group of results in ``WORST_FIRST``."""
    return func.min(case({status: rank for rank, status in enumerate(WORST_FIRST)}, value=Result.status))
