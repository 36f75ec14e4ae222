"""Runs migrations on the connection that :mod:`patchgen_service.database.migrating` hands over."""

from __future__ import annotations

from typing import Any, Literal

from alembic import context
from sqlalchemy import TypeDecorator

from patchgen_service.database.tables import Base


def render_type(kind: str, item: Any, autogen_context: object) -> str | Literal[False]:
    """The plain type of a column: a migration does not change when the code does."""
    if kind == "type" and isinstance(item, TypeDecorator):
        return f"sa.{item.impl_instance!r}"
    return False


with context.config.attributes["connection"].begin_nested():
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=Base.metadata,
        render_item=render_type,
        render_as_batch=True,
        include_name=lambda name, kind, parents: kind != "table" or name in Base.metadata.tables,
        transaction_per_migration=False,
    )
    context.run_migrations()
