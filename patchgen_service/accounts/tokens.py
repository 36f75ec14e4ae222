"""Tokens that scripts sign in with: shown once, stored as a digest, for a purpose and a while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_service.accounts.roles import may
from patchgen_service.database.tables import Person, Repository, Token
from patchgen_service.database.words import Role
from patchgen_service.records.audit import write_audit
from patchgen_service.secrets import make_token, token_digest

SCOPES: dict[str, Role] = {
    "read": "viewer",
    "push": "approver",
    "run": "approver",
    "approve": "approver",
    "admin": "admin",
}
"""What a token may do, and the role that its person must have for it: ``push`` hands in results."""
_BETWEEN_USES = timedelta(minutes=1)


@dataclass(frozen=True)
class Bearer:
    """Whoever shows a token: its person, within its scopes and its repository."""

    person: Person
    token: Token

    def may(self, session: Session, scope: str, repository: Repository) -> bool:
        """Whether the token is for this, and its person may still do it."""
        if scope not in self.token.scopes:
            return False
        if self.token.repository_id not in (None, repository.id):
            return False
        return may(session, self.person, repository, SCOPES[scope])


def add_token(
    session: Session,
    person: Person,
    name: str,
    scopes: Sequence[str],
    now: datetime,
    repository: Repository | None = None,
    expires: datetime | None = None,
) -> str:
    """Make a token of a person, and return it: it is not stored, and cannot be shown again.

    A PatchgenError when a scope is unknown or there is none.
    """
    for scope in scopes:
        if scope not in SCOPES:
            hint = did_you_mean(scope, SCOPES) or f"Scopes: {', '.join(SCOPES)}."
            raise PatchgenError(f"there is no scope '{scope}'", None, hint)
    if not scopes:
        raise PatchgenError("a token needs a scope", None, f"Scopes: {', '.join(SCOPES)}.")
    secret = make_token("tok")
    repository_id = repository.id if repository is not None else None
    session.add(
        Token(
            person_id=person.id,
            repository_id=repository_id,
            name=name[:200],
            digest=token_digest(secret),
            scopes=list(scopes),
            created=now,
            expires=expires,
        )
    )
    session.flush()
    write_audit(session, person.name, "token.add", now, name[:200], repository_id, scopes=list(scopes))
    return secret


def find_bearer(session: Session, secret: str, now: datetime) -> Bearer | None:
    """Who shows this token; nobody where it is unknown, has expired, or its person is kept out."""
    row = session.execute(
        select(Person, Token)
        .join(Token, Token.person_id == Person.id)
        .where(Token.digest == token_digest(secret), Person.is_active)
    ).one_or_none()
    if row is None or (row[1].expires is not None and row[1].expires <= now):
        return None
    return Bearer(*row)


def note_use(session: Session, bearer: Bearer, now: datetime) -> None:
    """Note that a token was used, to the minute."""
    used = bearer.token.used
    if used is None or not timedelta() <= now - used < _BETWEEN_USES:
        session.merge(bearer.token).used = now


def remove_token(session: Session, token: Token, actor: str, now: datetime) -> None:
    """End a token."""
    write_audit(session, actor, "token.remove", now, token.name, token.repository_id)
    session.delete(token)
    session.flush()
