"""All rows of a database copied into another: from SQLite to PostgreSQL, and out of backups."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from sqlalchemy import Column, Connection, Engine, Table, bindparam, func, insert, select, update

from patchgen_core.errors import PatchgenError
from patchgen_service.database.migrating import upgrade_database
from patchgen_service.database.tables import Base

_ROWS_AT_ONCE = 500


def copy_database(source: Engine, target: Engine) -> dict[str, int]:
    """Copy all rows, as they are at one moment, and return how many there are of each table; all of them, or none.

    Tables are made in ``target``, which has to be empty: a PatchgenError when it is not. Both databases are brought to
    this version's tables.
    """
    upgrade_database(source)
    upgrade_database(target)
    with read_snapshot(source) as reading, target.begin() as writing:
        _require_no_rows(writing)
        return {table.name: copy_table(reading, writing, table) for table in Base.metadata.sorted_tables}


def require_empty(target: Engine) -> None:
    """Make the tables of this version; a PatchgenError where they have rows already."""
    upgrade_database(target)
    with target.begin() as connection:
        _require_no_rows(connection)


def _require_no_rows(connection: Connection) -> None:
    for table in Base.metadata.sorted_tables:
        if connection.execute(select(func.count()).select_from(table)).scalar_one():
            raise PatchgenError(
                f"the database to copy to is not empty: it has rows of '{table.name}'", None, "Give an empty one."
            )


def read_snapshot(engine: Engine) -> Connection:
    """A connection that sees one moment of the database, however long it reads; to be closed."""
    connection = engine.connect()
    if engine.dialect.name == "postgresql":
        return connection.execution_options(isolation_level="REPEATABLE READ")
    return connection.execution_options(read_only=True)


def copy_table(reading: Connection, writing: Connection, table: Table) -> int:
    """Copy a table; columns that refer to rows of the same table are set when all of them are there."""
    own = [column for column in table.columns if any(key.column.table is table for key in column.foreign_keys)]
    keys = list(table.primary_key.columns)
    count = 0
    references: list[dict[str, Any]] = []
    for rows in _batches(reading, table):
        for row in rows:
            values = {column.name: row.pop(column.name) for column in own}
            if any(value is not None for value in values.values()):
                references.append({f"{key.name}_": row[key.name] for key in keys} | values)
            row |= dict.fromkeys(values)
        writing.execute(insert(table), rows)
        count += len(rows)
    if references:
        condition = [key == bindparam(f"{key.name}_") for key in keys]
        writing.execute(update(table).where(*condition), references)
    if writing.dialect.name == "postgresql":
        _move_sequence(writing, table, keys)
    return count


def _batches(reading: Connection, table: Table) -> Iterator[list[dict[str, Any]]]:
    rows = reading.execution_options(stream_results=True).execute(select(table).order_by(*table.primary_key.columns))
    mappings = iter(rows.mappings())
    while batch := [dict(row) for row in islice(mappings, _ROWS_AT_ONCE)]:
        yield batch


def _move_sequence(writing: Connection, table: Table, keys: list[Column[Any]]) -> None:
    """Have numbers that PostgreSQL gives go on after those that were copied."""
    if table.autoincrement_column is None:
        return
    largest = writing.execute(select(func.max(keys[0]))).scalar()
    if largest is not None:
        sequence = func.pg_get_serial_sequence(f'"{table.name}"', keys[0].name)
        writing.execute(select(func.setval(sequence, largest)))
