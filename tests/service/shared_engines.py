"""One engine of each kind for the databases of all tests of a process: it compiles a statement once, not in each."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event, text

from patchgen_service.database.engine import open_database
from patchgen_service.database.migrating import upgrade_database
from patchgen_service.database.tables import Base
from tools.postgresql import PostgresServer


class SqliteFiles:
    """An engine that opens another file for each test."""

    def __init__(self, folder: Path) -> None:
        self._model = folder / "model.sqlite"
        model = open_database(f"sqlite:///{self._model}")
        upgrade_database(model)
        model.dispose()
        self._path: Path | None = None
        self.engine = open_database("sqlite:///the-file-of-a-test")
        event.listen(self.engine, "do_connect", self._name_file)

    def copy_to(self, path: Path) -> str:
        """A new file with all tables; returns its URL."""
        return f"sqlite:///{shutil.copy(self._model, path)}"

    @contextmanager
    def over(self, path: Path) -> Iterator[Engine]:
        """The engine over a file."""
        self._path = path
        yield self.engine
        self.engine.dispose()
        self._path = None

    def _name_file(self, dialect: object, record: object, arguments: list[Any], options: dict[str, Any]) -> None:
        assert self._path is not None, "the test whose database this was is over"
        arguments[0] = str(self._path)


class PostgresDatabase:
    """A database on PostgreSQL that is emptied for each test."""

    def __init__(self, server: PostgresServer) -> None:
        self.url = server.make_database("shared")
        self.engine = open_database(self.url)
        upgrade_database(self.engine)

    def empty(self) -> None:
        """Have nothing in it but its tables, and nobody else there."""
        self.engine.dispose()
        tables = ", ".join(f'"{table.name}"' for table in Base.metadata.sorted_tables)
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'shared' AND pid <> {own}"
        with self.engine.begin() as connection:
            connection.execute(text(others.format(own="pg_backend_pid()")))
            connection.execute(text(f"TRUNCATE {tables} RESTART IDENTITY"))
            connection.execute(text("DROP SCHEMA IF EXISTS dbos CASCADE"))
