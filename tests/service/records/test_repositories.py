"""Repositories are added, changed and declared; their secrets are stored encrypted; every change is audited."""

from __future__ import annotations

from datetime import timedelta

import pytest
from cryptography.fernet import Fernet
from service_samples import NOW
from service_team import Team
from sqlalchemy import select

from patchgen_core.errors import PatchgenError
from patchgen_service.database.tables import AuditEntry, Base, Repository
from patchgen_service.records.machines import (
    ReleaseFacts,
    hear_from_worker,
    note_releases,
    runs_of_worker,
    take_turn,
)
from patchgen_service.records.repositories import (
    add_repository,
    change_repository,
    declare_repositories,
    read_secret,
    remove_repository,
)
from patchgen_service.secrets import SecretBox
from patchgen_service.settings import RepositorySettings

BOX = SecretBox(Fernet.generate_key().decode())
URL = "https://git.example/acme/new.git"


def test_a_secret_is_stored_encrypted_and_audited_without_its_text(team: Team) -> None:
    with team.transactions() as session:
        repository = add_repository(session, BOX, "ada", NOW, name="acme/new", url=URL, forge_token="hidden")
        assert read_secret(repository, "forge_token", BOX) == "hidden"
        assert change_repository(session, BOX, repository, "ada", NOW, webhook_secret="covert", checks=["drift"])
        assert not change_repository(session, BOX, repository, "ada", NOW, webhook_secret="covert")
    with team.transactions() as session:
        row = session.scalars(select(Repository).filter_by(name="acme/new")).one()
        entries = session.scalars(select(AuditEntry).order_by(AuditEntry.id)).all()
        assert [entry.action for entry in entries] == ["repository.add", "repository.change"]
        assert entries[1].details == {"webhook_secret": True, "checks": ["drift"]}
        stored = str([vars(entry) for entry in entries]) + str(vars(row))
        assert "hidden" not in stored
        assert "covert" not in stored
        remove_repository(session, row, "ada", NOW)
        assert session.scalars(select(AuditEntry.action).order_by(AuditEntry.id)).all()[-1] == "repository.remove"


def test_the_audit_has_no_password_of_an_address(team: Team) -> None:
    url = "https://robot:hunter2@git.example/acme/other.git"
    with team.transactions() as session:
        remove_repository(session, add_repository(session, BOX, "ada", NOW, name="acme/other", url=url), "ada", NOW)
    with team.transactions() as session:
        entries = session.scalars(select(AuditEntry).order_by(AuditEntry.id)).all()
        assert [entry.details["url"] for entry in entries[-2:]] == ["https://git.example/acme/other.git"] * 2


def test_what_the_file_of_settings_declares_is_not_removed(sqlite_team: Team) -> None:
    """The next start would add it again, without its runs."""
    declared = RepositorySettings("acme/models", URL)
    with sqlite_team.transactions() as session, pytest.raises(PatchgenError, match=r"service\.toml declares"):
        remove_repository(session, sqlite_team.repository(session), "ada", NOW, [declared])


def test_a_removed_repository_takes_all_of_its_rows_along(team: Team) -> None:
    team.run("a" * 40)
    unfinished = team.begin("b" * 40)
    with team.transactions() as session:
        take_turn(session, "poll 1", timedelta(hours=1), NOW)
        assert remove_repository(session, team.repository(session), "ada", NOW) == [unfinished.id]
    with team.transactions() as session:
        kept = [table.name for table in Base.metadata.sorted_tables if session.execute(select(table)).first()]
    kept.remove("removed_repository")
    assert kept == ["artifact", "environment", "audit_entry"], "what retention removes, and what stays"


def test_a_removed_repository_leaves_its_number_to_none(team: Team) -> None:
    """Badges, feeds and webhooks name it, and its mirror stays for a while."""
    with team.transactions() as session:
        first = add_repository(session, BOX, "ada", NOW, name="acme/first", url=URL)
        number = first.id
        remove_repository(session, first, "ada", NOW)
        assert add_repository(session, BOX, "ada", NOW, name="acme/second", url=URL).id > number


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"name": "acme/models", "url": URL}, "there is already a repository 'acme/models'"),
        ({"name": "a", "url": "ext::sh -c 'touch x'"}, "is not the address of a git repository"),
        ({"name": "a", "url": "--upload-pack=touch x"}, "is not the address of a git repository"),
        ({"name": "a", "url": ""}, "a repository needs a url"),
        ({"name": "a/", "url": URL}, "no space or slash at its ends"),
        ({"name": "a\nb", "url": URL}, "has a control character"),
        ({"name": "a", "url": URL, "projects": ["../b"]}, "'../b' is not in the repository"),
        ({"name": "a", "url": URL, "constraints": "/etc/passwd"}, "'/etc/passwd' is not in the repository"),
        ({"name": "a", "url": URL, "schedule": "every day"}, "'every day' is not a schedule"),
        ({"name": "a", "url": URL, "run_count": 3}, "a repository has no 'run_count'"),
    ],
)
def test_what_cannot_be_a_repository_is_refused(sqlite_team: Team, columns: dict[str, object], message: str) -> None:
    with sqlite_team.transactions() as session, pytest.raises(PatchgenError, match=message):
        add_repository(session, BOX, "ada", NOW, **columns)


def test_the_file_of_settings_declares_repositories_again_and_again(team: Team) -> None:
    declared = RepositorySettings("acme/new", URL, forge="github", forge_token="THE_TOKEN", owners={"a": "b"})
    for _ in range(2):
        with team.transactions() as session:
            declare_repositories(session, BOX, [declared], {"THE_TOKEN": "hidden"}, NOW)
    with team.transactions() as session:
        row = session.scalars(select(Repository).filter_by(name="acme/new")).one()
        assert (row.branches, row.owners, read_secret(row, "forge_token", BOX)) == (["main"], {"a": "b"}, "hidden")
        assert len(session.scalars(select(AuditEntry)).all()) == 1
        with pytest.raises(PatchgenError, match="the environment has no THE_TOKEN"):
            declare_repositories(session, BOX, [declared], {}, NOW)


def test_releases_are_new_once(team: Team) -> None:
    with team.transactions() as session:
        assert len(note_releases(session, [ReleaseFacts("5.23.0"), ReleaseFacts("5.24.0rc1", True)], NOW)) == 2
        assert note_releases(session, [ReleaseFacts("5.23.0", is_yanked=True)], NOW) == []


def test_a_turn_is_taken_by_one_and_survives_a_clock_that_jumps(team: Team) -> None:
    def take(now: object) -> bool:
        with team.transactions() as session:
            return take_turn(session, "poll", timedelta(minutes=5), now)  # type: ignore[arg-type]

    future = NOW + timedelta(days=3650)
    assert [take(NOW), take(NOW), take(NOW + timedelta(minutes=5))] == [True, False, True]
    assert [take(future), take(NOW), take(NOW)] == [True, True, False]


def test_workers_and_what_they_do_are_known(team: Team) -> None:
    run = team.begin("a" * 40)
    team.start(run)
    with team.transactions() as session:
        for minutes, process in ((0, 1), (1, 1), (2, 7)):
            hear_from_worker(session, "worker", NOW + timedelta(minutes=minutes), "host", process, "bubblewrap")
        assert [row.id for row in runs_of_worker(session, "worker")] == [run.id]
