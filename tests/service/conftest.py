"""A service's folder and database, and git repositories with a small patched project, to test against."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from service_samples import NOW, GitProject
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from patchgen_service.database.engine import Transactions, make_transactions, open_database
from patchgen_service.database.migrating import upgrade_database
from patchgen_service.database.tables import Repository
from patchgen_service.settings import ServiceSettings
from patchgen_service.store import Store
from tools.postgresql import PostgresServer


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests of a process."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgresql_url(postgres_server: PostgresServer) -> str:
    """The URL of an empty database on PostgreSQL."""
    return postgres_server.make_database("test")


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database; the test is run on each kind of database.

    What does not concern the database asks for ``sqlite_transactions`` instead.
    """
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'test.sqlite'}"
    url: str = request.getfixturevalue("postgresql_url")
    return url


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """A database with all tables, of each kind."""
    engine = open_database(database_url)
    upgrade_database(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def transactions(engine: Engine) -> Transactions:
    """``with transactions() as session`` on a database of each kind."""
    return make_transactions(engine)


@pytest.fixture
def sqlite_transactions(tmp_path: Path) -> Iterator[Transactions]:
    """``with sqlite_transactions() as session``, for what does not concern the kind of database."""
    engine = open_database(f"sqlite:///{tmp_path / 'test.sqlite'}")
    upgrade_database(engine)
    yield make_transactions(engine)
    engine.dispose()


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


@pytest.fixture
def git_project(tmp_path: Path) -> GitProject:
    """A git repository with a patched project, clean and committed."""
    project = GitProject(tmp_path / "project")
    project.regenerate()
    project.commit("Begin")
    return project
