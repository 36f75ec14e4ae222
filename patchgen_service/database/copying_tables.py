"""Tables and rows copied as they are, whichever version of the service made them: into backups."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, Connection, DateTime, Engine, MetaData, event

from patchgen_core.errors import PatchgenError
from patchgen_service.database.base import UtcTime
from patchgen_service.database.copying import copy_table
from patchgen_service.database.revisions import REVISIONS


def copy_tables(reading: Connection, target: Engine) -> dict[str, int]:
    """Make the tables that a database has in an empty one, copy all rows, and return how many there are of each.

    Nothing is migrated. The table that holds the revision is copied, and not counted. A PatchgenError where a column
    has a type that only its own kind of database knows, which no version of the service makes.
    """
    tables = MetaData()
    event.listen(tables, "column_reflect", _read_column)
    tables.reflect(reading)
    with target.begin() as writing:
        tables.create_all(writing)
        counts = {table.name: copy_table(reading, writing, table) for table in tables.sorted_tables}
    return {name: count for name, count in counts.items() if name != REVISIONS}


def _read_column(inspector: object, table: Any, column: dict[str, Any]) -> None:
    """Give a column the type that every kind of database has; numbers that one gives by itself are copied."""
    try:
        kind = column["type"].as_generic()
    except NotImplementedError:
        message = f"the column '{column['name']}' of the table '{table.name}' has a type that no backup can hold"
        raise PatchgenError(message, None, "Give the service a database of its own.") from None
    column["type"] = _COLUMN_TYPES.get(type(kind), kind)
    column["default"] = None


_COLUMN_TYPES = {DateTime: UtcTime(), JSON: JSON(none_as_null=True)}
