"""A branch: its configs against the checks, now and over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_core.checks.registry import place
from patchgen_core.checks.result import BAD
from patchgen_service.database.tables import Result, Run
from patchgen_service.views.lines import RunLine, read_lines
from patchgen_service.views.overview import NO_VERDICT, Beat, BranchState, read_branches, read_strip
from patchgen_service.views.severity import WORST_FIRST, worst, worst_rank


@dataclass(frozen=True)
class ConfigKey:
    """What tells a config from others: the folder of its project, its file, and what reports call it."""

    project: str
    path: str
    config: str


@dataclass(frozen=True)
class GridCell:
    """What a check says of a config.

    Attributes:
        count, bad: how many items it has, and how many of them are red.
        change: ``new`` where one of them is, else that of the worst.
        result_id: the worst of them.
    """

    status: str
    count: int
    bad: int
    change: str
    result_id: int
    headline: str


@dataclass(frozen=True)
class GridRow:
    """A config: a cell for each check that it has, and its worst status in each of the last runs, empty for none."""

    key: ConfigKey
    cells: Mapping[str, GridCell]
    history: tuple[str, ...]

    @property
    def status(self) -> str:
        """The worst of its cells."""
        return worst(cell.status for cell in self.cells.values())

    @property
    def is_new(self) -> bool:
        """Whether it has something red that the baseline had not."""
        return any(cell.change == "new" for cell in self.cells.values())


@dataclass(frozen=True)
class BranchGrid:
    """The configs of a branch's run against checks; red ones first. ``beats`` are the columns of its history."""

    run: RunLine
    checks: tuple[str, ...]
    rows: tuple[GridRow, ...]
    beats: tuple[Beat, ...]


def read_branch(session: Session, repository_id: int, branch: str) -> BranchState | None:
    """Where a branch stands; None where it has no run that says something."""
    return next(iter(read_branches(session, [Run.repository_id == repository_id, Run.branch == branch])), None)


def read_status(session: Session, repository_id: int, branch: str) -> str:
    """The status of a branch's newest finished run that says something; empty where there is none."""
    query = select(Run.status).where(
        Run.repository_id == repository_id,
        Run.branch == branch,
        Run.transformers == "",
        Run.status.not_in(NO_VERDICT),
        Run.ended.is_not(None),
    )
    return session.scalar(query.order_by(Run.number.desc()).limit(1)) or ""


def read_grid(session: Session, run: RunLine) -> BranchGrid:
    """The grid of a run, with the history of its branch."""
    beats = read_strip(session, run.repository_id, run.branch)
    cells: dict[ConfigKey, dict[str, GridCell]] = {}
    checks: set[str] = set()
    for key, check, group in _groups(session, run.id):
        cells.setdefault(key, {})[check] = _cell(group)
        checks.add(check)
    history = _history(session, [beat.id for beat in beats])
    rows = [GridRow(key, row, tuple(history.get((beat.id, key), "") for beat in beats)) for key, row in cells.items()]
    rows.sort(key=lambda row: (not row.is_new, WORST_FIRST.index(row.status), row.key.config, row.key.path))
    return BranchGrid(run, tuple(sorted(checks, key=place)), tuple(rows), beats)


def read_runs(session: Session, repository_id: int, branch: str, limit: int, offset: int = 0) -> list[RunLine]:
    """The runs of a branch, newest first, those that say nothing as well."""
    return read_lines(session, Run.repository_id == repository_id, Run.branch == branch, limit=limit, offset=offset)


_Group = Sequence[tuple[int, str, str, str]]
"""Id, status, change and headline of results."""


def _groups(session: Session, run_id: str) -> Iterable[tuple[ConfigKey, str, _Group]]:
    query = select(
        Result.project,
        Result.path,
        Result.config,
        Result.check,
        Result.id,
        Result.status,
        Result.change,
        Result.headline,
    ).where(Result.run_id == run_id)
    groups: dict[tuple[ConfigKey, str], list[tuple[int, str, str, str]]] = {}
    for project, path, config, check, number, status, change, headline in session.execute(query):
        group = groups.setdefault((ConfigKey(project, path, config), check), [])
        group.append((number, status, change, headline))
    return ((key, check, group) for (key, check), group in groups.items())


def _cell(group: _Group) -> GridCell:
    number, _, change, headline = min(group, key=lambda entry: (entry[2] != "new", WORST_FIRST.index(entry[1])))
    bad = sum(entry[1] in BAD for entry in group)
    return GridCell(worst(entry[1] for entry in group), len(group), bad, change, number, headline)


def _history(session: Session, runs: Sequence[str]) -> dict[tuple[str, ConfigKey], str]:
    query = (
        select(Result.run_id, Result.project, Result.path, Result.config, worst_rank())
        .where(Result.run_id.in_(runs))
        .group_by(Result.run_id, Result.project, Result.path, Result.config)
    )
    return {(run, ConfigKey(*key)): WORST_FIRST[rank] for run, *key, rank in session.execute(query)}
