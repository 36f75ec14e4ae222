"""New runs: each begins once for what it is caused by, and takes the place of older ones of its branch."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from patchgen_service.database.statements import insert_all_once, lock_row, split
from patchgen_service.database.tables import Commit, Repository, Run, Trigger
from patchgen_service.database.words import COMPLETE, UNFINISHED, TriggerKind
from patchgen_service.records.runs import supersede_run

MOVES_BRANCH: tuple[TriggerKind, ...] = ("webhook", "poll", "approval")
"""What says that a branch is at another commit: such a run takes the place of older ones."""
_REPLACEABLE: tuple[TriggerKind, ...] = (*MOVES_BRANCH, "schedule")
_LONGEST = {"delivery": 200, "branch": 500, "base": 500, "sha": 64, "before": 64, "transformers": 40}
_OF_TRIGGER = ("kind", "delivery", "branch", "sha", "before", "base", "pull_request", "is_fork", "actor")
_OF_RUN = ("sha", "branch", "pull_request", "is_fork", "transformers")
_OF_COMMIT = ("subject", "author", "committed")
_MOST_STEPS = 100

_Line = tuple[str, int, bool, str]
"""A branch, or a pull request, with a release of transformers: of such a one, a newer run replaces older ones."""


@dataclass(frozen=True)
class RunCause:
    """What a run is begun by, and over what; the columns of :class:`~patchgen_service.database.tables.Trigger`.

    Attributes:
        delivery: the forge's id of the delivery, or another that is the same when the same thing is told again.
        transformers: a release to run with instead of the environment's own; empty for that.
        subject, author, committed: of the commit, as far as they are known.
    """

    kind: TriggerKind
    delivery: str
    branch: str
    sha: str
    base: str = ""
    before: str = ""
    pull_request: int = 0
    is_fork: bool = False
    actor: str = ""
    transformers: str = ""
    subject: str = ""
    author: str = ""
    committed: datetime | None = None

    @property
    def moves_branch(self) -> bool:
        """Whether it says that a branch is at another commit."""
        return self.kind in MOVES_BRANCH


def repeat_cause(session: Session, run: Run, kind: TriggerKind, delivery: str, actor: str) -> RunCause:
    """What begins a run of the same commit once more; above all, one of a fork's commit stays one of a fork's."""
    trigger = session.get_one(Trigger, run.trigger_id)
    return RunCause(
        kind,
        delivery,
        run.branch,
        run.sha,
        base=trigger.base,
        pull_request=run.pull_request,
        is_fork=run.is_fork,
        actor=actor,
        transformers=run.transformers,
    )


def begin_run(session: Session, repository: Repository, cause: RunCause, now: datetime) -> Run:
    """The run of a cause: a new one, pending, or the one there is.

    A delivery that comes again has the run that it had. Where a run of the branch's same commit is there already, and
    has not failed to give an answer, the cause joins it. Older unfinished runs of the branch are superseded; a
    delivery that comes after that of a later push is superseded itself. A ValueError where a text is too long.
    """
    return begin_runs(session, repository, [cause], now)[0]


def begin_runs(session: Session, repository: Repository, causes: Sequence[RunCause], now: datetime) -> list[Run]:
    """The run of each cause, as if they were begun one after the other; hundreds take no more statements than one."""
    for cause in causes:
        for name, longest in _LONGEST.items():
            if len(getattr(cause, name)) > longest:
                raise ValueError(f"the {name} of a run has at most {longest} characters")
    locked = lock_row(session, Repository, repository.id)
    assert locked is not None, "the repository was removed meanwhile"
    known = _read_triggers(session, locked.id, [cause.delivery for cause in causes])
    answers = _read_answers(session, known)
    branches = _Branches(session, locked.id, [cause for cause in causes if cause.delivery not in answers])
    new: list[tuple[Run, Trigger]] = []
    for cause in causes:
        if cause.delivery in answers:
            continue
        trigger = known.get(cause.delivery) or _make_trigger(locked.id, cause, now)
        session.add(trigger)
        if (run := branches.find_answer(cause)) is not None:
            trigger.joined = run.id
        else:
            run = _make_run(locked, cause, now)
            branches.put(run, cause, now)
            new.append((run, trigger))
        answers[cause.delivery] = run
    _insert(session, new, _note_commits(session, locked.id, causes))
    return [answers[cause.delivery] for cause in causes]


class _Branches:
    """Where branches are, while runs of them are begun: their newest runs, and those that newer ones replace."""

    def __init__(self, session: Session, repository_id: int, causes: Sequence[RunCause]) -> None:
        self._session, self._repository = session, repository_id
        names = {cause.branch for cause in causes if cause.moves_branch}
        self._newest = {_line_of(run): run for run in _newest_of_branches(session, repository_id, names)}
        self._replaceable: defaultdict[_Line, list[Run]] = defaultdict(list)
        for run in _replaceable_of_branches(session, repository_id, names):
            self._replaceable[_line_of(run)].append(run)

    def find_answer(self, cause: RunCause) -> Run | None:
        """The run that is what a cause asks for; none where a new one is to be begun."""
        newest = self._newest.get(_line_of(cause)) if cause.moves_branch else None
        if newest is None or newest.sha != cause.sha or newest.status not in (*UNFINISHED, *COMPLETE):
            return None
        return newest

    def put(self, run: Run, cause: RunCause, now: datetime) -> None:
        """Put a new run among those of its branch: what it replaces is superseded, or it is itself."""
        line = _line_of(cause)
        newest = self._newest.get(line) if cause.moves_branch else None
        if newest is not None and self._came_late(newest, cause):
            supersede_run(run, newest, now)
            return
        if cause.moves_branch:
            for older in self._replaceable.pop(line, ()):
                supersede_run(older, run, now)
            self._newest[line] = run
        if cause.kind in _REPLACEABLE:
            self._replaceable[line].append(run)

    def _came_late(self, newest: Run, cause: RunCause) -> bool:
        """Whether known pushes lead from the commit of a cause to the one that the branch is at already."""
        if newest.sha in (cause.sha, cause.before):
            return False
        pushes = select(Trigger.before, Trigger.sha).filter_by(
            repository_id=self._repository, branch=cause.branch, pull_request=cause.pull_request, is_fork=cause.is_fork
        )
        last = pushes.where(Trigger.before != "").order_by(Trigger.id.desc()).limit(_MOST_STEPS)
        steps = {row.before: row.sha for row in self._session.execute(last)}
        sha = cause.sha
        for _ in steps:
            sha = steps.get(sha, "")
            if sha == newest.sha:
                return True
        return False


def _line_of(of: Run | RunCause) -> _Line:
    return of.branch, of.pull_request, of.is_fork, of.transformers


def _make_trigger(repository_id: int, cause: RunCause, now: datetime) -> Trigger:
    return Trigger(repository_id=repository_id, received=now, **{name: getattr(cause, name) for name in _OF_TRIGGER})


def _make_run(repository: Repository, cause: RunCause, now: datetime) -> Run:
    """A run with the next number; its commit and its trigger are not yet in it."""
    repository.run_count += 1
    return Run(
        id=f"{repository.id}-{repository.run_count}-{secrets.token_hex(6)}",
        number=repository.run_count,
        repository_id=repository.id,
        status="pending",
        created=now,
        **{name: getattr(cause, name) for name in _OF_RUN},
    )


def _insert(session: Session, new: Iterable[tuple[Run, Trigger]], commits: Mapping[str, int]) -> None:
    """Insert runs and their triggers, of which they need the ids."""
    session.flush()
    for run, trigger in new:
        run.trigger_id, run.commit_id = trigger.id, commits[run.sha]
        session.add(run)
    session.flush()


def _note_commits(session: Session, repository_id: int, causes: Iterable[RunCause]) -> dict[str, int]:
    """The ids of the commits of causes, by their sha, with what is known about them by now."""
    facts: dict[str, dict[str, Any]] = {}
    for cause in causes:
        fact = facts.setdefault(cause.sha, dict.fromkeys(_OF_COMMIT))
        fact.update({name: fact[name] or getattr(cause, name) for name in _OF_COMMIT})
    insert_all_once(session, Commit, [{"repository_id": repository_id, "sha": sha, **facts[sha]} for sha in facts])
    ids = {}
    for shas in split(facts):
        rows = select(Commit).where(Commit.repository_id == repository_id, Commit.sha.in_(shas))
        for commit in session.scalars(rows):
            ids[commit.sha] = commit.id
            for name, value in facts[commit.sha].items():
                if value and not getattr(commit, name):
                    setattr(commit, name, value)
    return ids


def _read_triggers(session: Session, repository_id: int, deliveries: Sequence[str]) -> dict[str, Trigger]:
    """The triggers that there are of deliveries."""
    triggers: dict[str, Trigger] = {}
    for part in split(deliveries):
        rows = select(Trigger).where(Trigger.repository_id == repository_id, Trigger.delivery.in_(part))
        triggers |= {trigger.delivery: trigger for trigger in session.scalars(rows)}
    return triggers


def _read_answers(session: Session, triggers: Mapping[str, Trigger]) -> dict[str, Run]:
    """The runs that triggers began or joined, by delivery; those that were removed since are not there."""
    answers = {}
    for delivery, trigger in triggers.items():
        own = select(Run).where(Run.id == trigger.joined if trigger.joined else Run.trigger_id == trigger.id)
        if (run := session.scalar(own)) is not None:
            answers[delivery] = run
    return answers


def _newest_of_branches(session: Session, repository_id: int, names: Iterable[str]) -> Iterable[Run]:
    """The newest runs, each the newest of its line, that were begun because the branch moved."""
    line = (Run.branch, Run.pull_request, Run.is_fork, Run.transformers)
    for part in split(names):
        numbers = (
            select(func.max(Run.number))
            .join(Trigger, Trigger.id == Run.trigger_id)
            .where(
                Run.repository_id == repository_id,
                Run.branch.in_(part),
                Run.status != "superseded",
                Trigger.kind.in_(MOVES_BRANCH),
            )
            .group_by(*line)
        )
        yield from session.scalars(select(Run).where(Run.repository_id == repository_id, Run.number.in_(numbers)))


def _replaceable_of_branches(session: Session, repository_id: int, names: Iterable[str]) -> Iterable[Run]:
    """The unfinished runs that a newer one supersedes: those that look at where the branch was."""
    for part in split(names):
        runs = (
            select(Run)
            .join(Trigger, Trigger.id == Run.trigger_id)
            .where(
                Run.repository_id == repository_id,
                Run.branch.in_(part),
                Run.status.in_(UNFINISHED),
                Trigger.kind.in_(_REPLACEABLE),
            )
        )
        locked = runs.with_for_update(of=Run).order_by(Run.number).execution_options(populate_existing=True)
        yield from session.scalars(locked)
