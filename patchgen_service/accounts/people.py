"""People, their passwords, and the browsers that they are signed in with."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from patchgen_core.errors import PatchgenError
from patchgen_service.database.statements import insert_once
from patchgen_service.database.tables import Person, WebSession
from patchgen_service.records.audit import write_audit
from patchgen_service.secrets import make_token, token_digest

SHORTEST_PASSWORD = 12
LONGEST_PASSWORD = 1000
SESSION_LENGTH = timedelta(days=14)
_HASHER = PasswordHasher()
_PUBLIC = {"github": "https://github.com", "gitlab": "https://gitlab.com", "forgejo": "https://codeberg.org"}


def add_person(
    session: Session, name: str, actor: str, now: datetime, password: str = "", email: str = "", is_admin: bool = False
) -> Person:
    """Add a person; without a password, for one who signs in by a forge. A PatchgenError when the name is taken."""
    name = _check_name(name)
    hashed = hash_password(password) if password else ""
    if not insert_once(
        session, Person, name=name, email=email, password=hashed, identities={}, is_admin=is_admin, created=now
    ):
        raise PatchgenError(f"there is already a person '{name}'")
    write_audit(session, actor, "person.add", now, name, is_admin=is_admin)
    return find_person(session, name)


def find_person(session: Session, name: str) -> Person:
    """The person of a name; a PatchgenError when there is none."""
    person = session.scalar(select(Person).filter_by(name=name))
    if person is None:
        raise PatchgenError(f"there is no person '{name}'")
    return person


def set_password(session: Session, person: Person, password: str, actor: str, now: datetime) -> None:
    """Change a password, and sign the person out everywhere."""
    person.password = hash_password(password)
    session.execute(delete(WebSession).where(WebSession.person_id == person.id))
    write_audit(session, actor, "person.password", now, person.name)


def set_active(session: Session, person: Person, is_active: bool, actor: str, now: datetime) -> None:
    """Let a person in again, or keep them out from now on; what they did stays."""
    person.is_active = is_active
    if not is_active:
        session.execute(delete(WebSession).where(WebSession.person_id == person.id))
    write_audit(session, actor, "person.activate" if is_active else "person.deactivate", now, person.name)


def check_password(session: Session, name: str, password: str) -> Person | None:
    """The person whose name and password these are; it takes as long where nobody has that name."""
    person = session.scalar(select(Person).filter_by(name=name))
    hashed = person.password if person is not None and person.password else _hash_of_nobody()
    try:
        _HASHER.verify(hashed, password[: LONGEST_PASSWORD + 1].encode("utf-8", "surrogatepass"))
    except (VerificationError, InvalidHashError):
        return None
    if person is None or not person.is_active or not person.password:
        return None
    return person


def renew_hash(session: Session, person: Person, password: str) -> None:
    """Hash a password anew that is right and was hashed with less work than now.

    Apart from checking it, which only reads: on SQLite, who began to read cannot write after somebody else did.
    """
    if _HASHER.check_needs_rehash(person.password):
        is_same = (Person.id == person.id) & (Person.password == person.password)
        session.execute(update(Person).where(is_same).values(password=hash_password(password)))


def sign_in(session: Session, person: Person, now: datetime) -> str:
    """Begin a session of a browser, and return what its cookie is to hold."""
    secret = make_token("web")
    session.add(
        WebSession(digest=token_digest(secret), person_id=person.id, created=now, expires=now + SESSION_LENGTH)
    )
    session.flush()
    write_audit(session, person.name, "person.sign_in", now, person.name)
    return secret


def find_signed_in(session: Session, secret: str, now: datetime) -> Person | None:
    """The person whose browser holds this secret; nobody where that has ended, or was begun in the future."""
    people = select(Person).join(WebSession, WebSession.person_id == Person.id)
    fits = people.where(
        WebSession.digest == token_digest(secret),
        WebSession.expires > now,
        WebSession.expires <= now + 2 * SESSION_LENGTH,
        Person.is_active,
    )
    return session.scalar(fits)


def sign_out(session: Session, secret: str) -> None:
    """End a session of a browser."""
    session.execute(delete(WebSession).where(WebSession.digest == token_digest(secret)))


def sign_in_by_forge(
    session: Session, forge: str, identity: str, name: str, email: str, now: datetime
) -> Person | None:
    """The person that a forge knows by this identity, added when there is none; nobody where they are kept out.

    A person of that name who was added by hand is not theirs: such names get the forge's beside them.

    Args:
        forge: as :func:`name_provider` calls it.
        identity: the number that the forge gave to the account: logins change hands.
    """
    person = find_linked_person(session, forge, identity)
    if person is not None:
        return person if person.is_active else None
    wanted = _check_name(name)
    free = next(
        candidate
        for candidate in (wanted, f"{wanted}@{forge}", f"{wanted}@{forge}-{identity}")
        if session.scalar(select(Person.id).filter_by(name=candidate)) is None
    )
    person = add_person(session, free, free, now, email=email)
    person.identities = {forge: identity}
    return person


def name_provider(forge: str, url: str) -> str:
    """What people's identities on a forge go by: ``github``, or with its address where it is not the public one."""
    root = url.rstrip("/").lower()
    return forge if root in ("", _PUBLIC.get(forge)) else f"{forge} {root}"


def find_linked_person(session: Session, forge: str, identity: str) -> Person | None:
    """The person that a forge knows by this identity, kept out or not; ``forge`` is as :func:`name_provider` says."""
    people = session.scalars(select(Person).where(Person.identities.is_not(None)))
    return next((person for person in people if identity and person.identities.get(forge) == identity), None)


def hash_password(password: str) -> str:
    """What is stored of a password; a PatchgenError when it is too short or too long."""
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise PatchgenError(f"a password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters")
    return _HASHER.hash(password.encode("utf-8", "surrogatepass"))


@cache
def _hash_of_nobody() -> str:
    """What a password is compared with when nobody has that name, so that it takes the same time."""
    return _HASHER.hash("nobody's password")


def _check_name(name: str) -> str:
    name = name.strip()
    if not name or len(name) > 90 or not name.isprintable():
        raise PatchgenError("the name of a person has 1 to 90 printable characters")
    return name
