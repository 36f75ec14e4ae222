"""People as a forge knows them: who may come in by an account there, and whose account that is here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_core.errors import PatchgenError
from patchgen_service.accounts.people import find_linked_person, sign_in_by_forge
from patchgen_service.accounts.roles import set_role
from patchgen_service.database.tables import Person, Repository
from patchgen_service.records.audit import write_audit

_EXPECTED = "login:"
"""Before a login that was linked by hand, whose number is known when its owner comes for the first time."""


@dataclass(frozen=True)
class ForgeAccount:
    """An account on a forge; ``id`` is the number that it keeps when its login changes hands.

    Attributes:
        provider: the forge, as :func:`~patchgen_service.accounts.people.name_provider` says.
    """

    provider: str
    id: str
    login: str
    email: str = ""


def enter_by_forge(session: Session, account: ForgeAccount, adds_unknown: bool, now: datetime) -> Person | None:
    """The person that an account is linked with; nobody where they are kept out, or unknown.

    With ``adds_unknown`` somebody unknown becomes a person who may view the repositories that there are.
    """
    known = find_linked_person(session, account.provider, account.id) or _find_expected(session, account)
    if known is not None:
        if not known.is_active:
            return None
        if known.identities[account.provider] != account.id:
            link_account(session, known, account, now)
        return known
    if not adds_unknown:
        return None
    person = sign_in_by_forge(session, account.provider, account.id, account.login, account.email, now)
    assert person is not None, "a person who was just added cannot be locked out"
    for repository in session.scalars(select(Repository).order_by(Repository.id)):
        set_role(session, person, repository, "viewer", person.name, now)
    return person


def link_account(session: Session, person: Person, account: ForgeAccount, now: datetime) -> None:
    """Let a person come in by an account; a PatchgenError when it is that of somebody else here."""
    other = find_linked_person(session, account.provider, account.id)
    if other is not None and other.id != person.id:
        raise PatchgenError(f"'{account.login}' on {account.provider} is linked with another person here")
    person.identities = {**person.identities, account.provider: account.id}
    write_audit(session, person.name, "person.link", now, person.name, provider=account.provider, login=account.login)


def expect_account(session: Session, person: Person, provider: str, login: str, actor: str, now: datetime) -> None:
    """Let a person come in by the account that has this login when it comes for the first time."""
    person.identities = {**person.identities, provider: _EXPECTED + login.lower()}
    write_audit(session, actor, "person.link", now, person.name, provider=provider, login=login)


def _find_expected(session: Session, account: ForgeAccount) -> Person | None:
    expected = _EXPECTED + account.login.lower()
    people = session.scalars(select(Person).where(Person.identities.is_not(None)))
    return next((person for person in people if person.identities.get(account.provider) == expected), None)
