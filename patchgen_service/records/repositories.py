"""Repositories: added, changed and removed, by people and by the file of settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from sqlalchemy import delete, func, inspect, select
from sqlalchemy.orm import Session

from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_service.database.statements import is_postgresql
from patchgen_service.database.tables import PeriodicTask, RemovedRepository, Repository, Run
from patchgen_service.database.words import UNFINISHED
from patchgen_service.git.command import hide_secrets
from patchgen_service.records.audit import SERVICE, write_audit
from patchgen_service.secrets import SecretBox
from patchgen_service.settings import RepositorySettings

SECRETS = ("webhook_secret", "forge_token")
"""Columns that are encrypted; callers give and get their plain texts."""
COLUMNS = tuple(
    column.key for column in inspect(Repository).column_attrs if column.key not in ("id", "run_count", "created")
)
_URL = re.compile(r"(https?|ssh|git|file)://\S+|[\w.-]+@[\w.-]+:\S+|/\S*|[A-Za-z]:[\\/]\S*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def add_repository(session: Session, secrets: SecretBox, actor: str, now: datetime, **columns: Any) -> Repository:
    """Add a repository; secrets come as they are, and are stored encrypted.

    A PatchgenError when a column is unknown, the name is taken, or a value is not what it must be.
    """
    values = _check({"branches": [columns.get("default_branch", "main")], "projects": ["."], **columns})
    for name in ("name", "url"):
        if not values.get(name):
            raise PatchgenError(f"a repository needs a {name}")
    if session.scalar(select(Repository.id).filter_by(name=values["name"])) is not None:
        raise PatchgenError(f"there is already a repository '{values['name']}'")
    repository = Repository(id=_next_number(session), created=now, **_encrypt(values, secrets))
    session.add(repository)
    session.flush()
    write_audit(session, actor, "repository.add", now, repository.name, repository.id, **_show(values))
    return repository


def _next_number(session: Session) -> int | None:
    """The number of the next repository, which no other had; None where the database sees to that."""
    if is_postgresql(session):
        return None
    newest = (session.scalar(select(func.max(table.id))) or 0 for table in (Repository, RemovedRepository))
    return max(newest) + 1


def change_repository(
    session: Session, secrets: SecretBox, repository: Repository, actor: str, now: datetime, **columns: Any
) -> bool:
    """Change columns of a repository, and return whether that changed anything; errors as for adding one."""
    values = _check(columns)
    changes = {name: value for name, value in values.items() if _read(repository, name, secrets) != value}
    if not changes:
        return False
    if "name" in changes and session.scalar(select(Repository.id).filter_by(name=changes["name"])) is not None:
        raise PatchgenError(f"there is already a repository '{changes['name']}'")
    for name, value in _encrypt(changes, secrets).items():
        setattr(repository, name, value)
    write_audit(session, actor, "repository.change", now, repository.name, repository.id, **_show(changes))
    return True


def remove_repository(
    session: Session, repository: Repository, actor: str, now: datetime, declared: Iterable[RepositorySettings] = ()
) -> list[str]:
    """Forget a repository with all of its runs, and return those that were going on; who did that stays in the audit.

    A PatchgenError when the file of settings declares it, and so would add it again.
    """
    if any(settings.name == repository.name for settings in declared):
        message = f"service.toml declares '{repository.name}', which the next start would add again"
        raise PatchgenError(message, None, "Take it out of that file, and start the service again.")
    unfinished = select(Run.id).where(Run.repository_id == repository.id, Run.status.in_(UNFINISHED))
    runs = list(session.scalars(unfinished.order_by(Run.number)))
    turns = [f"{task} {repository.id}" for task in ("poll", "schedule")]
    session.execute(delete(PeriodicTask).where(PeriodicTask.name.in_(turns)))
    write_audit(session, actor, "repository.remove", now, repository.name, url=hide_secrets(repository.url))
    session.add(RemovedRepository(id=repository.id))
    session.delete(repository)
    session.flush()
    return runs


def declare_repositories(
    session: Session,
    secrets: SecretBox,
    declared: Iterable[RepositorySettings],
    environment: Mapping[str, str],
    now: datetime,
) -> None:
    """Add and change repositories until they are what the file of settings says; what it does not name stays.

    A PatchgenError when it names a variable for a secret that the environment has not.
    """
    for settings in declared:
        columns: dict[str, Any] = {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(settings).items()
        }
        columns["branches"] = columns["branches"] or [settings.default_branch]
        for name in SECRETS:
            if (variable := columns[name]) and variable not in environment:
                raise PatchgenError(f"the environment has no {variable}, which is the {name} of '{settings.name}'")
            columns[name] = environment[variable] if variable else ""
        known = session.scalar(select(Repository).filter_by(name=settings.name))
        if known is None:
            add_repository(session, secrets, SERVICE, now, **columns)
        else:
            change_repository(session, secrets, known, SERVICE, now, **columns)


def read_secret(repository: Repository, name: str, secrets: SecretBox) -> str:
    """The plain text of a repository's secret; empty for none."""
    assert name in SECRETS
    return secrets.decrypt(getattr(repository, name))


def _read(repository: Repository, name: str, secrets: SecretBox) -> Any:
    return read_secret(repository, name, secrets) if name in SECRETS else getattr(repository, name)


def _encrypt(values: Mapping[str, Any], secrets: SecretBox) -> dict[str, Any]:
    return {name: secrets.encrypt(value) if name in SECRETS else value for name, value in values.items()}


def _show(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as the audit has them: of a secret, whether there is one, and an address without its password."""
    shown = {name: bool(value) if name in SECRETS else value for name, value in values.items()}
    return {**shown, "url": hide_secrets(values["url"])} if "url" in values else shown


def _check(columns: dict[str, Any]) -> dict[str, Any]:
    for name, value in columns.items():
        if name not in COLUMNS:
            raise PatchgenError(f"a repository has no '{name}'", None, did_you_mean(name, COLUMNS))
        for text in _texts(value):
            if _CONTROL.search(text):
                raise PatchgenError(f"the {name} of a repository has a control character: {text!r}")
    if len(columns.get("name", "")) > 200 or columns.get("name", "") != columns.get("name", "").strip().strip("/"):
        raise PatchgenError("the name of a repository has at most 200 characters, and no space or slash at its ends")
    if (url := columns.get("url")) and not _URL.fullmatch(url):
        hint = "Give one such as https://git.example.com/acme/models.git, or the path of a folder."
        raise PatchgenError(f"'{url}' is not the address of a git repository", None, hint)
    if schedule := columns.get("schedule"):
        _check_schedule(schedule)
    for path in (*columns.get("projects", ()), columns.get("constraints", "")):
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise PatchgenError(f"'{path}' is not in the repository", None, "Give its path from the root.")
    return columns


def _check_schedule(schedule: str) -> None:
    from patchgen_service.schedules import is_schedule  # its library takes 0.05 s, and most have no schedule

    if not is_schedule(schedule):
        hint = "Give five fields, such as '0 4 * * *' for every day at four, UTC."
        raise PatchgenError(f"'{schedule}' is not a schedule", None, hint)


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Mapping):
        return [text for pair in value.items() for text in pair]
    return [text for text in value if isinstance(text, str)] if isinstance(value, (list, tuple)) else ()
