"""The tables of a database are those of this version, however it came to them."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, Inspector, inspect, text

from patchgen_core.errors import PatchgenError
from patchgen_service.database.engine import open_database
from patchgen_service.database.migrating import upgrade_database
from patchgen_service.database.revisions import FOLDER, head_revision, read_revision
from patchgen_service.database.tables import Base


@pytest.fixture
def empty(empty_url: str) -> Engine:
    return open_database(empty_url)


def describe(inspector: Inspector) -> dict[str, object]:
    """Tables with their columns, keys and indexes."""
    return {
        table: (
            {column["name"]: (str(column["type"]), column["nullable"]) for column in inspector.get_columns(table)},
            inspector.get_pk_constraint(table)["constrained_columns"],
            sorted(
                (key["constrained_columns"], key["referred_table"], key["options"].get("ondelete"))
                for key in inspector.get_foreign_keys(table)
            ),
            sorted(key["column_names"] for key in inspector.get_unique_constraints(table)),
            sorted(
                (index["column_names"], index["unique"])
                for index in inspector.get_indexes(table)
                if "duplicates_constraint" not in index
            ),
        )
        for table in inspector.get_table_names()
        if table != "alembic_version"
    }


@pytest.mark.slow
def test_migrations_make_the_tables_that_the_code_has(empty: Engine, tmp_path: Path) -> None:
    upgrade_database(empty)
    with empty.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": False})
        assert compare_metadata(context, Base.metadata) == []
    migrated = describe(inspect(empty))
    with empty.begin() as connection:
        connection.execute(text("DROP TABLE alembic_version"))
        Base.metadata.drop_all(connection)
        Base.metadata.create_all(connection)
    assert migrated == describe(inspect(empty))


def test_upgrading_again_changes_nothing_and_keeps_rows(empty: Engine) -> None:
    upgrade_database(empty)
    with empty.begin() as connection:
        connection.execute(text("INSERT INTO periodic_task (name, done) VALUES ('a', '2026-01-01 00:00:00')"))
    upgrade_database(empty)
    with empty.connect() as connection:
        assert read_revision(connection) == head_revision()
        assert connection.execute(text("SELECT name FROM periodic_task")).scalars().all() == ["a"]


def test_several_that_upgrade_at_once_do_not_disturb_each_other(empty_url: str) -> None:
    def upgrade(number: int) -> None:
        engine = open_database(empty_url)
        upgrade_database(engine)
        engine.dispose()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(upgrade, range(3)))


def test_a_new_file_that_somebody_else_is_writing_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "service.sqlite"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    for statement in (
        "CREATE TABLE other (id INTEGER)",
        "BEGIN",
        "SELECT * FROM other",
        "INSERT INTO other VALUES (1)",
    ):
        other.execute(statement).fetchall()
    timer = threading.Timer(0.5, other.execute, ("COMMIT",))
    timer.start()
    with open_database(f"sqlite:///{path}").connect() as connection:
        assert connection.execute(text("SELECT id FROM other")).scalar() == 1
    timer.join()


def test_a_database_of_a_later_version_is_refused(empty: Engine) -> None:
    upgrade_database(empty)
    with empty.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(PatchgenError, match="made by another version of the service"):
        upgrade_database(empty)


def test_migrations_follow_each_other_by_number() -> None:
    numbers = sorted(path.stem for path in (FOLDER / "versions").glob("[0-9]*.py"))
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]
    assert head_revision() == numbers[-1]
