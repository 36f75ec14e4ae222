"""What all tables have in common: their base, and columns that are read as they were written on every database."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from sqlalchemy import JSON, DateTime, Double, MetaData, TypeDecorator
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase


class UtcTime(TypeDecorator[datetime]):
    """A moment, with its time zone on every database: SQLite would forget it."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """As it is stored."""
        if value is not None and value.tzinfo is None:
            raise ValueError("a time without its zone")
        return None if value is None else value.astimezone(timezone.utc)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """As it is read."""
        return value if value is None or value.tzinfo is not None else value.replace(tzinfo=timezone.utc)


class Figures(TypeDecorator[dict[str, float]]):
    """Numbers by name. JSON has no word for what is not a number or infinite: those are stored as texts."""

    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: Mapping[str, float] | None, dialect: Dialect) -> dict[str, Any] | None:
        """As they are stored."""
        if value is None:
            return None
        return {name: figure if math.isfinite(figure) else str(figure) for name, figure in value.items()}

    def process_result_value(self, value: Mapping[str, Any] | None, dialect: Dialect) -> dict[str, float] | None:
        """As they are read."""
        if value is None:
            return None
        return {name: float(figure) if isinstance(figure, str) else figure for name, figure in value.items()}


class Base(DeclarativeBase):
    """All tables."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {
        datetime: UtcTime,
        float: Double(),  # which SQLAlchemy 2.0 takes for a FLOAT
        dict[str, Any]: JSON,
        list[str]: JSON,
        dict[str, str]: JSON,
        dict[str, int]: JSON,
        dict[str, float]: Figures,
    }
