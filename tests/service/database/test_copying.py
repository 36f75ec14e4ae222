"""Everything that is remembered, copied from one database to another and through a backup."""

from __future__ import annotations

import math
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic import command
from service_samples import NOW, make_result
from service_team import Team
from sqlalchemy import Engine, inspect, select, text

from patchgen_core.errors import PatchgenError
from patchgen_service.database.copying import copy_database
from patchgen_service.database.engine import make_transactions, open_database
from patchgen_service.database.revisions import head_revision, read_revision
from patchgen_service.database.tables import Base, PeriodicTask, Repository, Run
from patchgen_service.database.upgrading import make_config
from patchgen_service.records.backups import restore_backup, write_backup
from patchgen_service.records.baselines import choose_baseline
from patchgen_service.records.results import read_result
from patchgen_service.store import Store
from tools.postgresql import PostgresServer


@pytest.fixture
def other_postgresql_url(postgres_server: PostgresServer) -> str:
    return postgres_server.make_database("other")


def fill(team: Team) -> None:
    """Runs that refer to each other, and results with all kinds of values."""
    team.run("a" * 40)
    run = team.begin("b" * 40, subject="<b>'; --\u2028")
    team.add(run, make_result(status="drifted", figures={"nan": math.inf}))
    team.end(run)
    with team.transactions() as session:
        choose_baseline(session, run.id, "", lambda older, newer: True)


def rows(engine: Engine) -> dict[str, list[tuple[object, ...]]]:
    with engine.connect() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key.columns))]
            for table in Base.metadata.sorted_tables
        }


@pytest.mark.mostly_slow(1)
def test_a_copy_has_every_row_and_goes_on_counting(team: Team, engine: Engine, other_postgresql_url: str) -> None:
    fill(team)
    target = open_database(other_postgresql_url)
    counts = copy_database(engine, target)
    assert (counts["run"], counts["result"], counts["repository"]) == (2, 2, 1)
    assert rows(target) == rows(engine)
    with make_transactions(target)() as session:
        session.add(Repository(name="next", url="u", created=NOW))
        session.flush()
        assert session.scalars(select(Repository.id).filter_by(name="next")).one() == 2
        second = session.scalars(select(Run).filter_by(number=2)).one()
        assert second.baseline_id is not None
    target.dispose()


def test_a_database_that_has_rows_is_not_copied_to(team: Team, engine: Engine, tmp_path: Path) -> None:
    target = open_database(f"sqlite:///{tmp_path / 'target.sqlite'}")
    fill(team)
    copy_database(engine, target)
    with pytest.raises(PatchgenError, match=r"is not empty: it has rows of '\w+'"):
        copy_database(engine, target)


def test_a_copy_that_fails_halfway_leaves_nothing(team: Team, engine: Engine, tmp_path: Path) -> None:
    fill(team)
    target = open_database(f"sqlite:///{tmp_path / 'target.sqlite'}")
    with target.begin() as connection:
        Base.metadata.create_all(connection)
        connection.execute(text("ALTER TABLE result DROP COLUMN headline"))
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        connection.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": head_revision()})
    with pytest.raises(Exception, match="headline"):
        copy_database(engine, target)
    with target.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM repository")).scalar() == 0


@pytest.mark.mostly_slow(1)
def test_a_backup_brings_everything_back(team: Team, engine: Engine, tmp_path: Path) -> None:
    fill(team)
    path = tmp_path / "backup.tar.gz"
    backup = write_backup(engine, team.store, path)
    assert (backup.files, backup.missing, path.stat().st_mode & 0o777) == (2, (), 0o600)
    target, files = open_database(f"sqlite:///{tmp_path / 'target.sqlite'}"), Store(tmp_path / "restored")
    restored = restore_backup(path, target, files)
    assert restored == backup
    assert rows(target) == rows(engine)
    again = Team(make_transactions(target), files)
    with again.transactions() as session:
        run = session.scalars(select(Run).filter_by(number=2)).one()
    assert read_result(files, again.results(run)["drift"]).status == "drifted"


@pytest.mark.mostly_slow(1)
def test_a_backup_has_what_is_there_whichever_version_made_it(empty_url: str, tmp_path: Path) -> None:
    """One is made before an upgrade, and so must not be one; restoring it brings it to this version."""
    path, source, store = tmp_path / "old.backup", open_database(empty_url), Store(tmp_path / "files")
    moment = "2026-11-23 12:00:00+00:00" if source.dialect.name == "postgresql" else "2026-11-23 12:00:00.000000"
    with source.begin() as connection:
        command.upgrade(make_config(connection), "0001")
        connection.execute(text("INSERT INTO periodic_task (name, done) VALUES ('a', :at)"), {"at": moment})
    summary = write_backup(source, store, path)
    assert (summary.revision, summary.rows["periodic_task"], sum(summary.rows.values())) == ("0001", 1, 1)
    with source.connect() as connection:
        assert (read_revision(connection), inspect(connection).has_table("webhook_delivery")) == ("0001", False)
    target = open_database(f"sqlite:///{tmp_path / 'target.sqlite'}")
    assert restore_backup(path, target, Store(tmp_path / "restored")).revision == "0001"
    with make_transactions(target)() as session:
        assert session.get_one(PeriodicTask, "a").done == NOW
        assert read_revision(session.connection()) == head_revision()
    source.dispose()


def test_a_backup_of_a_later_version_is_left_to_that(team: Team, engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "later.backup"
    fill(team)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0815'"))
        connection.execute(text("CREATE TABLE later (id INTEGER PRIMARY KEY, at TIMESTAMP, facts JSON)"))
        connection.execute(text("INSERT INTO later (id, facts) VALUES (1, '{}'), (2, NULL)"))
    try:
        summary = write_backup(engine, team.store, path)
        assert (summary.revision, summary.rows["later"], summary.files) == ("0815", 2, 2)
        target, files = open_database(f"sqlite:///{tmp_path / 'target.sqlite'}"), Store(tmp_path / "restored")
        with pytest.raises(PatchgenError, match=f"knows more than revision {head_revision()}: it is of 0815"):
            restore_backup(path, target, files)
        assert list(files.digests()) == []
    finally:  # the tables are those of other tests as well
        with engine.begin() as connection:
            connection.execute(text("DROP TABLE later"))
            connection.execute(text("UPDATE alembic_version SET version_num = :head"), {"head": head_revision()})


@pytest.mark.slow
def test_a_backup_goes_on_where_files_are_gone_and_names_them(team: Team, engine: Engine, tmp_path: Path) -> None:
    fill(team)
    digest = next(team.store.digests())
    team.store.path(digest).unlink()
    path = tmp_path / "backup.tar.gz"
    assert write_backup(engine, team.store, path).missing == (digest,)
    target = open_database(f"sqlite:///{tmp_path / 'target.sqlite'}")
    assert restore_backup(path, target, Store(tmp_path / "restored")).missing == (digest,)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(b"no archive"), "it is not a backup, or it is damaged"),
        (lambda path: path.write_bytes(path.read_bytes()[:-2000]), "it is not a backup, or it is damaged"),
        (lambda path: path.unlink(), "the backup cannot be read: No such file"),
        (lambda path: _archive(path, "other"), "it is not a backup of the service"),
    ],
)
@pytest.mark.mostly_slow(2)
def test_what_is_no_whole_backup_is_refused(
    sqlite_team: Team, tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    fill(sqlite_team)
    path = tmp_path / "backup.tar.gz"
    with sqlite_team.transactions() as session:
        write_backup(session.get_bind().engine, sqlite_team.store, path)
    damage(path)
    target = open_database(f"sqlite:///{tmp_path / 'target.sqlite'}")
    with pytest.raises(PatchgenError, match=message):
        restore_backup(path, target, Store(tmp_path / "restored"))


def _archive(path: Path, name: str) -> None:
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo(name))
