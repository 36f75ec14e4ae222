"""Who calls the API: by a token, or nobody, who sees what is public."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_service.accounts.roles import may, visible_repositories
from patchgen_service.accounts.tokens import Bearer, find_bearer, note_use
from patchgen_service.database.tables import Repository, Run
from patchgen_service.records.runs import find_run_by_token, is_pushed
from patchgen_service.views.lines import Visible
from patchgen_service.web.site import Site

_SCHEME = HTTPBearer(auto_error=False, description="A token of the page of settings, or that of a run.")


@dataclass(frozen=True)
class Caller:
    """Who calls. Nobody is ``bearer`` none; ``secret`` is what was shown, and may be the token of a run."""

    site: Site
    secret: str

    @contextmanager
    def reading(self) -> Iterator[Call]:
        """Begin to read."""
        with self.site.readings() as session:
            yield self._open(session)

    @contextmanager
    def writing(self) -> Iterator[Call]:
        """Begin to change something."""
        with self.site.transactions() as session:
            call = self._open(session)
            if call.bearer is not None:
                note_use(session, call.bearer, self.site.clock())
            yield call

    def _open(self, session: Session) -> Call:
        now = self.site.clock()
        bearer = find_bearer(session, self.secret, now) if self.secret else None
        return Call(self.site, session, bearer, self.secret)


@dataclass(frozen=True)
class Call:
    """A call within a transaction."""

    site: Site
    session: Session
    bearer: Bearer | None
    secret: str

    @property
    def name(self) -> str:
        """Who the audit says it was."""
        return self.bearer.person.name if self.bearer is not None else "nobody"

    @property
    def visible(self) -> Visible:
        """The repositories that may be read."""
        if self.secret and self.bearer is None:
            raise HTTPException(401, "This token is unknown, or has expired.")
        if self.bearer is None or "read" not in self.bearer.token.scopes:
            return visible_repositories(self.session, None)
        own = visible_repositories(self.session, self.bearer.person)
        only = self.bearer.token.repository_id
        if only is None:
            return own
        return {only} if own is None or only in own else visible_repositories(self.session, None)

    def repository(self, repository_id: int, scope: str = "read") -> Repository:
        """A repository in which this may be done; ends the call otherwise."""
        if self.secret and self.bearer is None:
            raise HTTPException(401, "This token is unknown, or has expired.")
        repository = self.session.get(Repository, repository_id)
        is_readable = repository is not None and (self._may("read", repository) or self._may(scope, repository))
        if repository is None or not is_readable:
            raise HTTPException(404, "There is no such repository, or you may not read it.")
        if not self._may(scope, repository):
            raise HTTPException(403 if self.bearer else 401, f"That needs a token with the scope '{scope}'.")
        return repository

    def run(self, run_id: str, scope: str = "read") -> Run:
        """A run of a repository in which this may be done; ends the call otherwise."""
        run = self.session.get(Run, run_id)
        if run is None:
            raise HTTPException(404, "There is no such run, or you may not read it.")
        self.repository(run.repository_id, scope)
        return run

    def pushed_run(self, run_id: str) -> Run:
        """A run that results may be handed into: by its own token, or by one with the scope ``push``.

        The second may do so where a CI job began the run, and not where the service carries it out.
        """
        own = find_run_by_token(self.session, self.secret) if self.secret else None
        if own is not None and own.id == run_id:
            return own
        if own is not None:
            raise HTTPException(403, "This token is that of another run.")
        run = self.run(run_id, "push")
        if not is_pushed(self.session, run):
            raise HTTPException(
                403, f"The service carries run {run.number} out: it takes results of runs begun with 'push' alone."
            )
        return run

    def find_repository(self, name: str, scope: str) -> Repository:
        """A repository by its name."""
        number = self.session.scalar(select(Repository.id).where(Repository.name == name))
        return self.repository(number or 0, scope)

    def _may(self, scope: str, repository: Repository) -> bool:
        if self.bearer is not None and self.bearer.may(self.session, scope, repository):
            return True
        return scope == "read" and may(self.session, None, repository, "viewer")


def read_caller(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_SCHEME)]
) -> Caller:
    """Who makes a request."""
    return Caller(request.app.state.site, credentials.credentials if credentials is not None else "")


CallerOf = Annotated[Caller, Depends(read_caller)]
