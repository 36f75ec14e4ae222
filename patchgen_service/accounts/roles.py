"""What a person may do in a repository."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_service.database.statements import insert_once
from patchgen_service.database.tables import Membership, Person, Repository
from patchgen_service.database.words import ROLES, Role
from patchgen_service.records.audit import write_audit


def may(session: Session, person: Person | None, repository: Repository, role: Role) -> bool:
    """Whether a person has at least this role in a repository; everybody may view a public one."""
    if role == "viewer" and repository.is_public:
        return True
    if person is None or not person.is_active:
        return False
    own = find_role(session, person, repository)
    return own is not None and ROLES.index(own) >= ROLES.index(role)


def find_role(session: Session, person: Person, repository: Repository) -> Role | None:
    """The role of a person in a repository; an administrator of the service has the highest in each."""
    if person.is_admin:
        return ROLES[-1]
    membership = session.get(Membership, (person.id, repository.id))
    return next((role for role in ROLES if membership is not None and role == membership.role), None)


def set_role(
    session: Session, person: Person, repository: Repository, role: Role | None, actor: str, now: datetime
) -> None:
    """Give a person a role in a repository, or none."""
    values = {"person_id": person.id, "repository_id": repository.id}
    if role is not None:
        insert_once(session, Membership, **values, role=role)
    membership = session.get(Membership, (person.id, repository.id))
    if membership is not None and role is None:
        session.delete(membership)
    elif membership is not None and role is not None:
        membership.role = role
    session.flush()
    write_audit(session, actor, "role.set", now, person.name, repository.id, role=role or "")


def visible_repositories(session: Session, person: Person | None) -> set[int] | None:
    """The ids of the repositories that a person may view; None where that is all of them."""
    if person is not None and person.is_admin and person.is_active:
        return None
    public = set(session.scalars(select(Repository.id).where(Repository.is_public)))
    if person is None or not person.is_active:
        return public
    return public | set(session.scalars(select(Membership.repository_id).filter_by(person_id=person.id)))
