"""A run: what it came to beside its baseline, result by result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_core.checks.result import BAD
from patchgen_service.database.tables import Approval, Artifact, ArtifactUse, Environment, Person, Result, Run
from patchgen_service.views.branch import ConfigKey
from patchgen_service.views.lines import RunLine, read_line
from patchgen_service.views.rows import read_as

_COLUMNS = (
    Result.id,
    Result.run_id,
    Result.project,
    Result.path,
    Result.config,
    Result.line,
    Result.check,
    Result.item,
    Result.status,
    Result.change,
    Result.headline,
    Result.seconds,
    Result.data,
    Result.is_infrastructure,
)


@dataclass(frozen=True)
class ResultLine:
    """A result without what it says in full, which is the stored file ``data``."""

    id: int
    run_id: str
    project: str
    path: str
    config: str
    line: int
    check: str
    item: str
    status: str
    change: str
    headline: str
    seconds: float
    data: str
    is_infrastructure: bool

    @property
    def is_bad(self) -> bool:
        """Whether somebody should look."""
        return self.status in BAD

    @property
    def is_red(self) -> bool:
        """Whether it makes its run red, and not one that could not be done."""
        return self.is_bad and not self.is_infrastructure

    @property
    def key(self) -> ConfigKey:
        """The config that it is of."""
        return ConfigKey(self.project, self.path, self.config)


@dataclass(frozen=True)
class EnvironmentFacts:
    """Where a run ran."""

    digest: str
    python: str
    torch: str
    transformers: str
    kernels: Mapping[str, str]
    device: str


@dataclass(frozen=True)
class FileLine:
    """A stored file of a run."""

    digest: str
    kind: str
    name: str
    size: int


@dataclass(frozen=True)
class ApprovalLine:
    """Who approved which digest, and what became of it."""

    id: int
    run_id: str
    person: str
    digest: str
    state: str
    sha: str
    message: str
    created: datetime
    ended: datetime | None


@dataclass(frozen=True)
class RunDetail:
    """A run with all that its page shows.

    Attributes:
        is_fork: whether its commit comes from a fork, to which nothing is written.
        baseline: the run that it is compared with, and ``baseline_reason`` why that one.
    """

    line: RunLine
    results: tuple[ResultLine, ...]
    environment: EnvironmentFacts | None
    is_fork: bool
    baseline: RunLine | None
    baseline_reason: str
    files: tuple[FileLine, ...]
    approvals: tuple[ApprovalLine, ...]

    def changed(self, change: str) -> tuple[ResultLine, ...]:
        """The results with a change, such as ``new``."""
        return tuple(result for result in self.results if result.change == change)

    @property
    def uncompared(self) -> tuple[ResultLine, ...]:
        """Red results that are beside no baseline."""
        return tuple(result for result in self.results if result.is_bad and not result.change)


def read_run(session: Session, run_id: str) -> RunDetail | None:
    """A run; None where there is none."""
    line = read_line(session, run_id)
    if line is None:
        return None
    query = select(Run.baseline_id, Run.baseline_reason, Run.is_fork)
    baseline_id, reason, is_fork = session.execute(query.where(Run.id == run_id)).one()
    baseline = read_line(session, baseline_id) if baseline_id else None
    return RunDetail(
        line,
        read_results(session, run_id),
        _environment(session, run_id),
        is_fork,
        baseline,
        reason,
        _files(session, run_id),
        read_approvals(session, run_id),
    )


def read_results(session: Session, run_id: str) -> tuple[ResultLine, ...]:
    """The results of a run, by config."""
    query = select(*_COLUMNS).where(Result.run_id == run_id).order_by(Result.config, Result.path, Result.id)
    return read_as(session, ResultLine, query)


def read_result_line(session: Session, result_id: int) -> ResultLine | None:
    """One result; None where there is none."""
    if result_id >= 2**31:
        return None
    return next(iter(read_as(session, ResultLine, select(*_COLUMNS).where(Result.id == result_id))), None)


def read_approvals(session: Session, run_id: str) -> tuple[ApprovalLine, ...]:
    """The approvals of a run, the newest first."""
    query = (
        select(
            Approval.id,
            Approval.run_id,
            Person.name,
            Approval.digest,
            Approval.state,
            Approval.sha,
            Approval.message,
            Approval.created,
            Approval.ended,
        )
        .join(Person, Person.id == Approval.person_id)
        .where(Approval.run_id == run_id)
        .order_by(Approval.id.desc())
    )
    return read_as(session, ApprovalLine, query)


def _environment(session: Session, run_id: str) -> EnvironmentFacts | None:
    columns = (
        Environment.digest,
        Environment.python,
        Environment.torch,
        Environment.transformers,
        Environment.kernels,
        Environment.device,
    )
    query = select(*columns).join(Run, Run.environment_id == Environment.id).where(Run.id == run_id)
    return next(iter(read_as(session, EnvironmentFacts, query)), None)


def _files(session: Session, run_id: str) -> tuple[FileLine, ...]:
    query = (
        select(ArtifactUse.digest, ArtifactUse.kind, ArtifactUse.name, Artifact.size)
        .join(Artifact, Artifact.digest == ArtifactUse.digest)
        .where(ArtifactUse.run_id == run_id, ArtifactUse.kind != "result")
        .order_by(ArtifactUse.kind, ArtifactUse.name)
    )
    return read_as(session, FileLine, query)
