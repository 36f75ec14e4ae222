"""What the results of a run come to."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import exists, func, select, update
from sqlalchemy.orm import Session, aliased

from patchgen_core.checks.result import BAD
from patchgen_service.database.tables import Result, Run
from patchgen_service.database.words import COMPLETE, RunStatus

ANSWERS = (*BAD, "clean")
"""The statuses that say something of the config; what is skipped or rewritten does not contradict them."""


@dataclass(frozen=True)
class Verdict:
    """A status, why, and how many results there are of each kind, in words."""

    status: RunStatus
    message: str
    counts: str


@dataclass(frozen=True)
class _Group:
    check: str
    status: str
    is_flaky: bool
    is_infrastructure: bool
    count: int

    @property
    def is_drift(self) -> bool:
        """Whether files differ; a config that makes none is broken."""
        return self.check == "drift" and self.status != "error"


_COLUMNS = (Result.check, Result.status, Result.is_flaky, Result.is_infrastructure)
_GROUPS = select(*_COLUMNS, func.count()).group_by(*_COLUMNS)


def decide(session: Session, run: Run) -> Verdict:
    """The verdict on a run of which all results are there."""
    mark_flaky(session, run)
    groups = [_Group(*row) for row in session.execute(_GROUPS.where(Result.run_id == run.id))]
    total = sum(group.count for group in groups)
    undone = sum(group.count for group in groups if group.is_infrastructure)
    verdicts = [group for group in groups if not group.is_infrastructure]
    flaky = sum(group.count for group in verdicts if group.is_flaky)
    red = [group for group in verdicts if group.status in BAD and not group.is_flaky]
    drifted = sum(group.count for group in red if group.is_drift)
    broken = sum(group.count for group in red if not group.is_drift)
    parts = [(drifted, "drifted"), (broken, "broken"), (flaky, "flaky"), (undone, "could not be checked")]
    counts = ", ".join(f"{number} {word}" for number, word in parts if number)
    counts = f"{counts} of {_plural(total)}" if counts else _plural(total)
    if not total:
        return Verdict("infrastructure_error", "the gate handed in no result", counts)
    if broken or drifted:
        return Verdict("broken" if broken else "drifted", counts, counts)
    if undone:
        return Verdict("infrastructure_error", counts, counts)
    if flaky:
        return Verdict("flaky", f"{counts}: the same commit in the same environment gave different results", counts)
    return Verdict("passed", counts, counts)


def mark_flaky(session: Session, run: Run) -> None:
    """Mark what came to something else in another run of the same commit in the same environment, here and there."""
    if run.environment_id is None:
        return
    others = select(Run.id).where(
        Run.commit_id == run.commit_id,
        Run.environment_id == run.environment_id,
        Run.transformers == run.transformers,
        Run.id != run.id,
        Run.status.in_(COMPLETE),
    )
    for here, there in ((Result.run_id == run.id, others), (Result.run_id.in_(others), [run.id])):
        other = aliased(Result)
        contradiction = exists().where(
            other.key == Result.key,
            other.run_id.in_(there),
            other.status != Result.status,
            other.status.in_(ANSWERS),
            other.is_infrastructure.is_(False),
        )
        answers = here & Result.status.in_(ANSWERS) & Result.is_infrastructure.is_(False)
        session.execute(
            update(Result).where(answers, contradiction).values(is_flaky=True),
            execution_options={"synchronize_session": "fetch"},
        )


def _plural(total: int) -> str:
    return "1 result" if total == 1 else f"{total} results"
