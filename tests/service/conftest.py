"""A service's folder and database, and git repositories with a small patched project, to test against."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from service_samples import NOW, GitProject
from service_team import Team
from shared_engines import PostgresDatabase, SqliteFiles
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from patchgen_service.accounts import people
from patchgen_service.database.engine import Transactions, make_transactions
from patchgen_service.database.tables import Repository
from patchgen_service.settings import ServiceSettings
from patchgen_service.store import Store
from tools.postgresql import PostgresServer


@pytest.fixture(scope="session", autouse=True)
def costly_hasher() -> Iterator[PasswordHasher]:
    """Have passwords hashed at the least cost; what does that in a service."""
    costly = people._HASHER
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(people, "_HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
        yield costly


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests of a process."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgresql_url(postgres_server: PostgresServer) -> str:
    """The URL of an empty database on PostgreSQL."""
    return postgres_server.make_database("test")


@pytest.fixture(scope="session")
def postgres_database(postgres_server: PostgresServer) -> Iterator[PostgresDatabase]:
    """A database on PostgreSQL that has all tables."""
    database = PostgresDatabase(postgres_server)
    yield database
    database.engine.dispose()


@pytest.fixture(scope="session")
def sqlite_files(tmp_path_factory: pytest.TempPathFactory) -> SqliteFiles:
    """Databases on SQLite that have all tables."""
    return SqliteFiles(tmp_path_factory.mktemp("model"))


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without tables; the test is run on each kind of database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'test.sqlite'}"
    url: str = request.getfixturevalue("postgresql_url")
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database with all tables; the test is run on each kind of database.

    What does not concern the database asks for ``sqlite_transactions`` instead.
    """
    if request.param == "sqlite":
        files: SqliteFiles = request.getfixturevalue("sqlite_files")
        return files.copy_to(tmp_path / "test.sqlite")
    database: PostgresDatabase = request.getfixturevalue("postgres_database")
    database.empty()
    return database.url


@pytest.fixture
def engine(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> Iterator[Engine]:
    """A database with all tables, of each kind."""
    if not database_url.startswith("sqlite"):
        yield request.getfixturevalue("postgres_database").engine
        return
    with request.getfixturevalue("sqlite_files").over(tmp_path / "test.sqlite") as engine:
        yield engine


@pytest.fixture
def transactions(engine: Engine) -> Transactions:
    """``with transactions() as session`` on a database of each kind."""
    return make_transactions(engine)


@pytest.fixture
def sqlite_transactions(sqlite_files: SqliteFiles, tmp_path: Path) -> Iterator[Transactions]:
    """``with sqlite_transactions() as session``, for what does not concern the kind of database."""
    sqlite_files.copy_to(tmp_path / "test.sqlite")
    with sqlite_files.over(tmp_path / "test.sqlite") as engine:
        yield make_transactions(engine)


@pytest.fixture
def session(transactions: Transactions) -> Iterator[Session]:
    """A transaction on a database of each kind, committed at the end of the test."""
    with transactions() as session:
        yield session


@pytest.fixture
def service_settings(tmp_path: Path) -> ServiceSettings:
    """The settings of a service on SQLite, in a folder of its own, on a free port."""
    return ServiceSettings(tmp_path / "service", port=0)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Stored files."""
    return Store(tmp_path / "files")


@pytest.fixture
def make_repository() -> Callable[..., Repository]:
    """Adds a repository to a session's database."""

    def make(session: Session, name: str = "acme/models", **columns: object) -> Repository:
        url = f"https://git.example/{name}.git"
        repository = Repository(**{"name": name, "url": url, "projects": ["."], "created": NOW, **columns})
        session.add(repository)
        session.flush()
        return repository

    return make


@pytest.fixture(scope="session")
def clean_project(tmp_path_factory: pytest.TempPathFactory) -> GitProject:
    """A git repository with a patched project, clean and committed, for tests to copy."""
    project = GitProject(tmp_path_factory.mktemp("clean") / "project")
    project.regenerate()
    project.commit("Begin")
    return project


@pytest.fixture
def git_project(clean_project: GitProject, tmp_path: Path) -> GitProject:
    """A git repository with a patched project, clean and committed."""
    return clean_project.copy_to(tmp_path / "project")


@pytest.fixture
def team(transactions: Transactions, store: Store, make_repository: Callable[..., Repository]) -> Team:
    """A team with a repository, on each kind of database."""
    with transactions() as session:
        make_repository(session)
    return Team(transactions, store)


@pytest.fixture
def sqlite_team(sqlite_transactions: Transactions, store: Store, make_repository: Callable[..., Repository]) -> Team:
    """A team with a repository on SQLite, for what does not concern the database."""
    with sqlite_transactions() as session:
        make_repository(session)
    return Team(sqlite_transactions, store)
