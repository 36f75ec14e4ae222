"""All repositories at a glance: where each of their branches stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, func, or_, select, tuple_
from sqlalchemy.orm import Session

from patchgen_service.database.tables import Repository, Run
from patchgen_service.views.lines import RunLine, Visible, is_visible, read_lines

_REMEMBERED = timedelta(days=30)
"""A branch without a run for that long is at rest, and only shown on the page of its repository."""
_STRIP = 24
"""How many of its last runs a branch shows."""
NO_VERDICT = ("superseded", "cancelled")
"""What says nothing of a branch."""


@dataclass(frozen=True)
class Beat:
    """One of the last runs of a branch, as small as can be."""

    id: str
    status: str
    created: datetime


@dataclass(frozen=True)
class BranchState:
    """Where a branch stands.

    Attributes:
        newest: its newest run that says something, or is still to.
        verdict: its newest finished run, which may be the same; None before the first end of one.
        strip: its last runs, oldest first.
    """

    repository_id: int
    branch: str
    is_default: bool
    newest: RunLine
    verdict: RunLine | None
    strip: tuple[Beat, ...] = ()

    @property
    def is_red(self) -> bool:
        """Whether somebody should look: it is red, or is going to be with the run that goes on."""
        is_turning_red = self.newest.is_unfinished and self.newest.counts.bad > 0
        return is_turning_red or (self.verdict is not None and self.verdict.is_red)


@dataclass(frozen=True)
class RepositoryState:
    """A repository with its branches: red ones first, then its default branch."""

    id: int
    name: str
    url: str
    forge: str
    default_branch: str
    is_active: bool
    is_trusted: bool
    branches: tuple[BranchState, ...]

    @property
    def red(self) -> int:
        """How many of its branches are red."""
        return sum(branch.is_red for branch in self.branches)


@dataclass(frozen=True)
class Overview:
    """What the first page shows."""

    repositories: tuple[RepositoryState, ...]

    @property
    def branches(self) -> tuple[BranchState, ...]:
        """The branches of all repositories."""
        return tuple(branch for repository in self.repositories for branch in repository.branches)


def read_overview(session: Session, visible: Visible, now: datetime) -> Overview:
    """Where the repositories that may be seen stand, those with red branches first."""
    repositories = session.scalars(select(Repository).where(is_visible(visible)).order_by(Repository.name)).all()
    recent = or_(Run.created >= now - _REMEMBERED, Run.branch == Repository.default_branch)
    branches = read_branches(session, [Run.repository_id.in_([one.id for one in repositories]), recent])
    states = [_state(repository, branches) for repository in repositories]
    return Overview(tuple(sorted(states, key=lambda state: (-state.red, state.name))))


def read_repository(session: Session, repository_id: int) -> RepositoryState | None:
    """A repository with all of its branches; None where there is none."""
    repository = session.get(Repository, repository_id)
    if repository is None:
        return None
    return _state(repository, read_branches(session, [Run.repository_id == repository_id]))


def read_branches(session: Session, conditions: Iterable[ColumnElement[bool]]) -> list[BranchState]:
    """The branches that have runs which fit conditions. Runs with another release of transformers do not count."""
    own = [*conditions, Run.transformers == "", Run.status.not_in(NO_VERDICT)]
    by_branch = (
        select(Run.repository_id, func.max(Run.number))
        .join(Repository, Repository.id == Run.repository_id)
        .group_by(Run.repository_id, Run.branch)
    )
    newest = by_branch.where(*own)
    ended = by_branch.where(*own, Run.ended.is_not(None))
    lines = read_lines(session, or_(is_one_of(newest), is_one_of(ended)))
    branches: dict[tuple[int, str], BranchState] = {}
    for line in sorted(lines, key=lambda line: line.number):
        key = line.repository_id, line.branch
        verdict = None if line.ended is None else line
        known = branches.get(key)
        if known is not None:
            branches[key] = replace(known, newest=line, verdict=verdict or known.verdict)
        else:
            branches[key] = BranchState(*key, False, line, verdict)
    return [replace(state, strip=read_strip(session, *key)) for key, state in branches.items()]


def is_newest_verdict() -> ColumnElement[bool]:
    """The condition that a run is the newest finished one of its branch."""
    return is_one_of(
        select(Run.repository_id, func.max(Run.number))
        .where(Run.transformers == "", Run.status.not_in(NO_VERDICT), Run.ended.is_not(None))
        .group_by(Run.repository_id, Run.branch)
    )


def is_one_of(runs: Any) -> ColumnElement[bool]:
    """The condition that a run is one of a query's, which gives the ids of repositories and the numbers of runs."""
    return tuple_(Run.repository_id, Run.number).in_(runs)


def read_strip(session: Session, repository_id: int, branch: str) -> tuple[Beat, ...]:
    """The last runs of a branch, oldest first."""
    query = (
        select(Run.id, Run.status, Run.created)
        .where(Run.repository_id == repository_id, Run.branch == branch, Run.transformers == "")
        .where(Run.status.not_in(NO_VERDICT))
        .order_by(Run.number.desc())
        .limit(_STRIP)
    )
    return tuple(Beat(*row) for row in reversed(session.execute(query).all()))


def _state(repository: Repository, branches: Iterable[BranchState]) -> RepositoryState:
    own = [
        replace(branch, is_default=branch.branch == repository.default_branch)
        for branch in branches
        if branch.repository_id == repository.id
    ]
    own.sort(key=lambda branch: (not branch.is_red, not branch.is_default, branch.branch))
    return RepositoryState(
        repository.id,
        repository.name,
        repository.url,
        repository.forge,
        repository.default_branch,
        repository.is_active,
        repository.is_trusted,
        tuple(own),
    )
