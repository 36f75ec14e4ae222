"""Releases of transformers: which configs go with which, and what the others fail of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from patchgen_core.checks.result import BAD
from patchgen_core.upgrade.matrix.bisecting import Turn
from patchgen_service.database.tables import Release, Repository, Result, Run
from patchgen_service.database.words import UNFINISHED
from patchgen_service.views.branch import ConfigKey
from patchgen_service.views.lines import RunLine, Visible, is_visible, read_lines
from patchgen_service.views.overview import NO_VERDICT, is_one_of
from patchgen_service.views.severity import WORST_FIRST, worst_rank
from patchgen_service.views.turns import narrow, version_order

NO_ANSWER = ("infrastructure_error", "timed_out", "cancelled", "superseded")
"""The ends of runs that say nothing of a release."""


@dataclass(frozen=True)
class ReleaseLine:
    """A release that was seen on the package index, with the newest run of each repository that went with it."""

    version: str
    is_candidate: bool
    is_yanked: bool
    uploaded: datetime | None
    runs: tuple[RunLine, ...]


@dataclass(frozen=True)
class MatrixRow:
    """A config: its worst status with each release, empty where it was not run.

    Attributes:
        turn: since which release it breaks with every newer one, as far as that is known; none where it does not.
    """

    key: ConfigKey
    statuses: tuple[str, ...]
    turn: Turn | None

    @property
    def first_bad(self) -> str:
        """The oldest release that is known to break it; empty for none."""
        return self.turn.after if self.turn is not None else ""


@dataclass(frozen=True)
class RootCause:
    """What several configs fail of with a release."""

    version: str
    check: str
    headline: str
    results: tuple[tuple[ConfigKey, int], ...]


@dataclass(frozen=True)
class ReleaseMatrix:
    """Configs of a repository against releases, oldest first; ``causes`` newest release first, most configs first."""

    repository_id: int
    repository: str
    runs: tuple[RunLine, ...]
    rows: tuple[MatrixRow, ...]
    causes: tuple[RootCause, ...]

    @property
    def versions(self) -> tuple[str, ...]:
        """Its columns."""
        return tuple(run.transformers for run in self.runs)


def read_releases(session: Session, visible: Visible) -> tuple[ReleaseLine, ...]:
    """All releases, newest first."""
    lines: dict[str, list[RunLine]] = {}
    for line in _newest_runs(session, visible):
        lines.setdefault(line.transformers, []).append(line)
    releases = {release.version: release for release in session.scalars(select(Release))}
    names = sorted({*lines, *releases}, key=version_order, reverse=True)
    return tuple(_release_line(name, releases.get(name), lines.get(name, ())) for name in names)


def known_releases(session: Session) -> tuple[str, ...]:
    """The releases that a bisection looks at: neither candidates nor withdrawn."""
    return tuple(session.scalars(select(Release.version).where(~Release.is_candidate, ~Release.is_yanked)))


def read_matrix(session: Session, repository: Repository) -> ReleaseMatrix:
    """The configs of a repository against the releases that it was run with."""
    ended = _newest_runs(session, {repository.id}, Run.status.not_in(UNFINISHED))
    runs = sorted(ended, key=lambda run: version_order(run.transformers))
    statuses: dict[ConfigKey, dict[str, str]] = {}
    query = (
        select(Result.run_id, Result.project, Result.path, Result.config, worst_rank())
        .where(Result.run_id.in_([run.id for run in runs]))
        .group_by(Result.run_id, Result.project, Result.path, Result.config)
    )
    for run_id, project, path, config, rank in session.execute(query):
        statuses.setdefault(ConfigKey(project, path, config), {})[run_id] = WORST_FIRST[rank]
    releases = known_releases(session)
    rows = [_row(key, own, runs, releases) for key, own in statuses.items()]
    rows.sort(key=lambda row: (-sum(status in BAD for status in row.statuses), row.key.config, row.key.path))
    return ReleaseMatrix(repository.id, repository.name, tuple(runs), tuple(rows), _causes(session, runs))


def _newest_runs(session: Session, visible: Visible, *conditions: ColumnElement[bool]) -> list[RunLine]:
    newest = (
        select(Run.repository_id, func.max(Run.number))
        .join(Repository, Repository.id == Run.repository_id)
        .where(Run.transformers != "", Run.status.not_in(NO_VERDICT), is_visible(visible), *conditions)
        .group_by(Run.repository_id, Run.transformers)
    )
    return read_lines(session, is_one_of(newest))


def _release_line(version: str, release: Release | None, runs: Iterable[RunLine]) -> ReleaseLine:
    own = tuple(sorted(runs, key=lambda run: run.repository))
    if release is None:
        return ReleaseLine(version, False, False, None, own)
    return ReleaseLine(version, release.is_candidate, release.is_yanked, release.uploaded, own)


def _row(key: ConfigKey, own: Mapping[str, str], runs: Sequence[RunLine], releases: Collection[str]) -> MatrixRow:
    statuses: dict[str, str | None] = {
        run.transformers: own.get(run.id) for run in runs if run.id in own or run.status in NO_ANSWER
    }
    return MatrixRow(key, tuple(own.get(run.id, "") for run in runs), narrow(statuses, releases).turn)


def _causes(session: Session, runs: Sequence[RunLine]) -> tuple[RootCause, ...]:
    versions: Mapping[str, str] = {run.id: run.transformers for run in runs}
    query = (
        select(Result.run_id, Result.check, Result.headline, Result.project, Result.path, Result.config, Result.id)
        .where(Result.run_id.in_(versions), Result.status.in_(BAD))
        .order_by(Result.config, Result.id)
    )
    groups: dict[tuple[str, str, str], list[tuple[ConfigKey, int]]] = {}
    for run_id, check, headline, project, path, config, number in session.execute(query):
        key = ConfigKey(project, path, config)
        groups.setdefault((versions[run_id], check, headline), []).append((key, number))
    causes = [RootCause(*name, tuple(results)) for name, results in groups.items()]
    causes.sort(key=lambda cause: (-len(cause.results), cause.check, cause.headline))
    causes.sort(key=lambda cause: version_order(cause.version), reverse=True)
    return tuple(causes)
