"""A request to a page: who makes it, and what they may see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.exceptions import HTTPException
from starlette.requests import Request

from patchgen_service.accounts.people import find_signed_in
from patchgen_service.database.tables import Membership, Repository
from patchgen_service.database.words import ROLES, Role
from patchgen_service.views.lines import Visible
from patchgen_service.web.site import Site

LARGEST_KEY = 2**31 - 1
"""Greater numbers in addresses are no keys, and not every database has room for them."""
SESSION_COOKIE = "patchgen_session"


@dataclass(frozen=True)
class Visitor:
    """Who looks at a page.

    Attributes:
        name: empty for somebody who has not signed in.
        roles: what they may do, by repository.
        public: the repositories that everybody may see.
    """

    person_id: int | None = None
    name: str = ""
    is_admin: bool = False
    roles: Mapping[int, Role] = field(default_factory=dict)
    public: frozenset[int] = frozenset()

    @property
    def visible(self) -> Visible:
        """The repositories that they may see."""
        return None if self.is_admin else self.public | self.roles.keys()

    def may(self, repository_id: int, role: Role) -> bool:
        """Whether they may do in a repository what a role may."""
        if self.is_admin:
            return True
        own = self.roles.get(repository_id)
        if own is None:
            return role == "viewer" and repository_id in self.public
        return ROLES.index(own) >= ROLES.index(role)


@dataclass(frozen=True)
class Visit:
    """A request with its visitor, and a transaction that reads."""

    site: Site
    session: Session
    visitor: Visitor

    def check_visible(self, repository_id: int | None) -> None:
        """End the request as if there were nothing, where a repository may not be seen or is not there."""
        visible = self.visitor.visible
        if (
            repository_id is None
            or repository_id > LARGEST_KEY
            or (visible is not None and repository_id not in visible)
        ):
            raise HTTPException(404)

    def check_role(self, repository_id: int | None, role: Role) -> None:
        """End the request where the visitor may not do in a repository what a role may."""
        self.check_visible(repository_id)
        assert repository_id is not None
        if not self.visitor.may(repository_id, role):
            raise HTTPException(403, f"That needs the role {role} in this repository.")

    def repository(self, repository_id: int) -> Repository:
        """A repository that may be seen; ends the request where there is none."""
        self.check_visible(repository_id)
        repository = self.session.get(Repository, repository_id)
        if repository is None:
            raise HTTPException(404)
        return repository


@contextmanager
def open_visit(request: Request) -> Iterator[Visit]:
    """Begin to read for a page."""
    site: Site = request.app.state.site
    with site.readings() as session:
        visitor = read_visitor(session, site, request)
        request.state.visitor = visitor
        yield Visit(site, session, visitor)


def read_visitor(session: Session, site: Site, request: Request) -> Visitor:
    """Who makes a request."""
    public = frozenset(session.scalars(select(Repository.id).where(Repository.is_public)))
    secret = request.cookies.get(SESSION_COOKIE, "")
    person = find_signed_in(session, secret, site.clock()) if secret else None
    if person is None:
        return Visitor(public=public)
    rows = session.execute(
        select(Membership.repository_id, Membership.role).where(Membership.person_id == person.id)
    ).all()
    roles = {repository: role for repository, role in rows if role in ROLES}
    return Visitor(person.id, person.name, person.is_admin, roles, public)
