"""Rows of queries as values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Executable
from sqlalchemy.orm import Session

Value = TypeVar("Value")


def read_as(session: Session, kind: Callable[..., Value], query: Executable) -> tuple[Value, ...]:
    """The rows of a query whose columns are those of a dataclass, in its order."""
    return tuple(kind(*row) for row in session.execute(query))
