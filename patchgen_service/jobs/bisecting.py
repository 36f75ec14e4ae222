"""The first release that breaks a config, by bisection: a run at a time, and none twice for a commit."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_service.database.tables import Environment, Repository, Result, Run, Trigger
from patchgen_service.database.words import COMPLETE, UNFINISHED
from patchgen_service.jobs.context import JobContext
from patchgen_service.jobs.releases import PACKAGE
from patchgen_service.records.new_runs import RunCause, begin_run
from patchgen_service.views.releases import NO_ANSWER, known_releases
from patchgen_service.views.severity import WORST_FIRST, worst_rank
from patchgen_service.views.turns import narrow

Statuses = Mapping[str, Mapping[str, str | None]]
"""The worst status of configs, by what stands for a config in every run, with each release."""


def bisect_releases(context: JobContext) -> list[str]:
    """Begin each repository's next run that tells more of the release which breaks its configs; returns their ids.

    Only runs of the commit that the newest release was run with are looked at, and one is waited for at a time.
    """

    def begin(session: Session) -> list[str]:
        active = session.scalars(select(Repository).where(Repository.is_active).order_by(Repository.id)).all()
        return list(_begin_next(session, active, context))

    return context.change(begin)


def _begin_next(session: Session, repositories: Sequence[Repository], context: JobContext) -> Iterator[str]:
    for repository in repositories:
        newest = _newest_of_release(session, repository.id)
        version = _next_version(session, newest) if newest is not None else ""
        if newest is not None and version:
            delivery = f"release-{PACKAGE}-{version}-{newest.sha}"
            cause = RunCause("release", delivery, newest.branch, newest.sha, actor="service", transformers=version)
            yield begin_run(session, repository, cause, context.clock()).id


def _newest_of_release(session: Session, repository_id: int) -> Run | None:
    """The newest run that was begun for a release."""
    runs = select(Run).join(Trigger, Trigger.id == Run.trigger_id)
    own = runs.where(Run.repository_id == repository_id, Trigger.kind == "release", Run.is_fork.is_(False))
    return session.scalar(own.order_by(Run.number.desc()).limit(1))


def _next_version(session: Session, newest: Run) -> str:
    """The release to run the commit of a run with next; empty where there is none, or one is under way."""
    of_commit = select(Run).where(Run.repository_id == newest.repository_id, Run.sha == newest.sha)
    runs = {run.id: run for run in session.scalars(of_commit.order_by(Run.number)) if _version(session, run)}
    if any(run.transformers and run.status in UNFINISHED for run in runs.values()):
        return ""
    releases, statuses = known_releases(session), _read_statuses(session, runs)
    wanted: Counter[str] = Counter()
    for own in statuses.values():
        narrowing = narrow(own, releases)
        if narrowing.untried:
            wanted[narrowing.untried] += 1
        elif narrowing.turn is not None and not narrowing.turn.before:
            anchor = _usual_version(session, newest)
            wanted[anchor] += anchor in releases and anchor not in own
    version, count = max(wanted.items(), key=lambda pair: pair[1], default=("", 0))
    return version if count else ""


def _read_statuses(session: Session, runs: Mapping[str, Run]) -> Statuses:
    query = (
        select(Result.run_id, Result.project, Result.path, Result.config, worst_rank())
        .where(Result.run_id.in_(list(runs)), Result.is_infrastructure.is_(False))
        .group_by(Result.run_id, Result.project, Result.path, Result.config)
    )
    statuses: dict[str, dict[str, str | None]] = defaultdict(dict)
    for run_id, project, path, config, rank in session.execute(query):
        statuses["\0".join((project, path, config))][_version(session, runs[run_id])] = WORST_FIRST[rank]
    for own in statuses.values():
        for run in runs.values():
            if run.status in NO_ANSWER:
                own.setdefault(_version(session, run), None)
    return statuses


def _version(session: Session, run: Run) -> str:
    """The release that a run was with: the one that it was for, or that of its environment."""
    if run.transformers or run.environment_id is None:
        return run.transformers
    return session.get_one(Environment, run.environment_id).transformers


def _usual_version(session: Session, newest: Run) -> str:
    """The release that the branch of a run is usually run with."""
    usual = (
        select(Environment.transformers)
        .join(Run, Run.environment_id == Environment.id)
        .where(Run.repository_id == newest.repository_id, Run.branch == newest.branch, Run.transformers == "")
    )
    return session.scalar(usual.where(Run.status.in_(COMPLETE)).order_by(Run.number.desc()).limit(1)) or ""
