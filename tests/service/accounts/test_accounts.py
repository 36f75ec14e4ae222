"""Who may do what: passwords, browsers, tokens and roles."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from argon2 import PasswordHasher
from service_samples import NOW
from service_team import Team
from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_core.errors import PatchgenError
from patchgen_service.accounts import people
from patchgen_service.accounts.people import (
    SESSION_LENGTH,
    add_person,
    check_password,
    find_signed_in,
    renew_hash,
    set_active,
    set_password,
    sign_in,
    sign_in_by_forge,
    sign_out,
)
from patchgen_service.accounts.roles import find_role, may, set_role, visible_repositories
from patchgen_service.accounts.tokens import add_token, find_bearer, note_use, remove_token
from patchgen_service.database.tables import AuditEntry, Person, Repository, Token, WebSession

PASSWORD = "correct horse battery"


def ada(session: Session, **options: object) -> Person:
    return add_person(session, "ada", "test", NOW, PASSWORD, **options)  # type: ignore[arg-type]


def test_a_password_is_stored_as_a_hash_and_checked(team: Team) -> None:
    with team.transactions() as session:
        assert ada(session).password.startswith("$argon2id$")
    with team.transactions() as session:
        assert check_password(session, "ada", PASSWORD) is not None
        for name, password in (
            ("ada", "wrong"),
            ("bob", PASSWORD),
            ("ada", ""),
            ("' OR 1=1 --", "x"),
            ("ada", "\ud800"),
        ):
            assert check_password(session, name, password) is None


def test_a_password_is_costly_to_guess_and_one_that_was_not_becomes_so(
    sqlite_team: Team, costly_hasher: PasswordHasher, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite_team.transactions() as session:
        ada(session)
    monkeypatch.setattr(people, "_HASHER", costly_hasher)
    with sqlite_team.transactions() as session:
        person = check_password(session, "ada", PASSWORD)
        assert person is not None
        assert not session.dirty, "who only reads checks it"
        renew_hash(session, person, PASSWORD)
        assert check_password(session, "ada", PASSWORD) is person
        memory, passes = re.findall("m=([0-9]+),t=([0-9]+)", person.password)[0]
        assert int(memory) >= 64 * 1024
        assert int(passes) >= 3


def test_nobody_signs_in_with_a_password_who_has_none(sqlite_team: Team) -> None:
    with sqlite_team.transactions() as session:
        add_person(session, "bob", "test", NOW)
        for password in ("", "nobody's password"):
            assert check_password(session, "bob", password) is None


@pytest.mark.parametrize("password", ["short", "x" * 1001])
def test_a_password_that_is_too_short_or_too_long_is_refused(sqlite_team: Team, password: str) -> None:
    with sqlite_team.transactions() as session, pytest.raises(PatchgenError, match="12 to 1000 characters"):
        add_person(session, "ada", "test", NOW, password)


def test_a_name_is_given_once(team: Team) -> None:
    with team.transactions() as session:
        ada(session)
        with pytest.raises(PatchgenError, match="there is already a person 'ada'"):
            ada(session)
        with pytest.raises(PatchgenError, match="printable"):
            add_person(session, "a\nb", "test", NOW)


def test_a_browser_stays_signed_in_for_a_while(team: Team) -> None:
    with team.transactions() as session:
        secret = sign_in(session, ada(session), NOW)
        assert secret not in session.scalars(select(WebSession.digest)).all()
    with team.transactions() as session:
        for after, is_in in ((timedelta(), True), (SESSION_LENGTH, False), (timedelta(days=-3650), False)):
            assert (find_signed_in(session, secret, NOW + after) is not None) == is_in
        assert find_signed_in(session, "", NOW) is None
        sign_out(session, secret)
        assert find_signed_in(session, secret, NOW) is None


def test_another_password_and_being_kept_out_sign_out_everywhere(team: Team) -> None:
    with team.transactions() as session:
        person = ada(session)
        first = sign_in(session, person, NOW)
        set_password(session, person, "another password", "ada", NOW)
        second = sign_in(session, person, NOW)
        token = add_token(session, person, "ci", ["read"], NOW)
        set_active(session, person, False, "root", NOW)
    with team.transactions() as session:
        assert [find_signed_in(session, secret, NOW) for secret in (first, second)] == [None, None]
        assert find_bearer(session, token, NOW) is None
        assert check_password(session, "ada", "another password") is None


def test_who_comes_by_a_forge_gets_nobody_elses_account(team: Team) -> None:
    with team.transactions() as session:
        local = ada(session, is_admin=True)
        first = sign_in_by_forge(session, "github", "42", "ada", "", NOW)
        again = sign_in_by_forge(session, "github", "42", "renamed", "", NOW)
        other = sign_in_by_forge(session, "gitlab", "42", "ada", "", NOW)
        assert first is not None
        assert again is not None
        assert other is not None
        assert (first.name, again.id, other.name) == ("ada@github", first.id, "ada@gitlab")
        assert not first.is_admin
        assert local.identities == {}
        set_active(session, first, False, "root", NOW)
        assert sign_in_by_forge(session, "github", "42", "ada", "", NOW) is None


def test_roles_hold_in_their_repository_alone(team: Team) -> None:
    with team.transactions() as session:
        person, one = ada(session), team.repository(session)
        two = Repository(name="acme/other", url="u", created=NOW)
        public = Repository(name="acme/public", url="u", created=NOW, is_public=True)
        session.add_all([two, public])
        session.flush()
        assert not may(session, person, one, "viewer")
        set_role(session, person, one, "approver", "root", NOW)
        roles = [may(session, person, one, role) for role in ("viewer", "approver", "admin")]
        assert roles == [True, True, False]
        assert not may(session, person, two, "viewer")
        assert [may(session, None, public, role) for role in ("viewer", "approver")] == [True, False]
        assert visible_repositories(session, person) == {one.id, public.id}
        assert visible_repositories(session, None) == {public.id}
        set_role(session, person, one, "viewer", "root", NOW)
        assert find_role(session, person, one) == "viewer"
        set_role(session, person, one, None, "root", NOW)
        assert find_role(session, person, one) is None
        person.is_admin = True
        assert may(session, person, two, "admin")
        assert visible_repositories(session, person) is None
        person.is_active = False
        assert not may(session, person, two, "viewer")
        actions = session.scalars(
            select(AuditEntry.details).filter_by(action="role.set").order_by(AuditEntry.id)
        ).all()
        assert [details["role"] for details in actions] == ["approver", "viewer", ""]


def test_a_token_can_do_what_its_scopes_and_its_person_can(team: Team) -> None:
    with team.transactions() as session:
        person, one = ada(session), team.repository(session)
        two = Repository(name="acme/other", url="u", created=NOW)
        session.add(two)
        session.flush()
        for repository in (one, two):
            set_role(session, person, repository, "approver", "root", NOW)
        secret = add_token(session, person, "ci", ["push", "admin"], NOW, one, NOW + timedelta(days=1))
        assert secret not in str(session.execute(select(Token.digest, Token.name)).all())
    with team.transactions() as session:
        bearer = find_bearer(session, secret, NOW)
        assert bearer is not None
        one, two = session.scalars(select(Repository).order_by(Repository.id)).all()
        assert bearer.may(session, "push", one)
        assert not bearer.may(session, "push", two)
        assert not bearer.may(session, "read", one)
        assert not bearer.may(session, "admin", one)
        set_role(session, bearer.person, one, "viewer", "root", NOW)
        assert not bearer.may(session, "push", one)
        assert find_bearer(session, secret, NOW + timedelta(days=1)) is None
        assert find_bearer(session, "pgtok_other", NOW) is None
        note_use(session, bearer, NOW)
        remove_token(session, bearer.token, "ada", NOW)
        assert find_bearer(session, secret, NOW) is None


def test_a_scope_that_there_is_not_is_refused(sqlite_team: Team) -> None:
    with sqlite_team.transactions() as session:
        person = ada(session)
        with pytest.raises(PatchgenError, match="there is no scope 'pusch'\n  Did you mean 'push'"):
            add_token(session, person, "ci", ["pusch"], NOW)
        with pytest.raises(PatchgenError, match="a token needs a scope"):
            add_token(session, person, "ci", [], NOW)
