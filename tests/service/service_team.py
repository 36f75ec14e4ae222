"""A team's repository, told of in few words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from service_samples import NOW, make_result
from sqlalchemy import select
from sqlalchemy.orm import Session

from patchgen_core.checks.result import CheckResult, pack
from patchgen_service.database.engine import Transactions
from patchgen_service.database.tables import Repository, Result, Run
from patchgen_service.records.machines import EnvironmentFacts, set_environment
from patchgen_service.records.new_runs import RunCause, begin_run
from patchgen_service.records.results import add_results
from patchgen_service.records.runs import end_run, start_run
from patchgen_service.store import Store


@dataclass
class Team:
    """A repository with runs; each call is a transaction of its own, a minute after the one before."""

    transactions: Transactions
    store: Store
    now: datetime = NOW
    count: int = 0

    def begin(self, sha: str, branch: str = "main", **cause: Any) -> Run:
        """Begin a run of a commit."""
        self.count += 1
        self.now += timedelta(minutes=1)
        fields = {"kind": "webhook", "delivery": f"delivery-{self.count}", **cause}
        with self.transactions() as session:
            return begin_run(session, self.repository(session), RunCause(branch=branch, sha=sha, **fields), self.now)

    def repository(self, session: Session) -> Repository:
        """The repository, in a session."""
        return session.scalars(select(Repository)).one()

    def add(self, run: Run, *results: CheckResult, project: str = ".") -> int:
        """Hand results of a run in; returns how many are new."""
        with self.transactions() as session:
            return len(add_results(session, self.store, run, project, map(pack, results), self.now))

    def start(self, run: Run, facts: EnvironmentFacts | None = None) -> None:
        """Start a run, in an environment."""
        with self.transactions() as session:
            start_run(session, run.id, "worker", self.now)
            if facts is not None:
                set_environment(session, run.id, facts, self.now)

    def end(self, run: Run, **options: Any) -> Run:
        """End a run."""
        self.now += timedelta(minutes=1)
        with self.transactions() as session:
            return end_run(session, run.id, self.now, **options)

    def run(self, sha: str, statuses: dict[str, str] | None = None, branch: str = "main", **cause: Any) -> Run:
        """A whole run in one environment; ``statuses`` are those of items, each of a config of its own."""
        facts = cause.pop("facts", EnvironmentFacts(torch="2.9"))
        run = self.begin(sha, branch, **cause)
        self.start(run, facts)
        self.add(run, *results_of(statuses or {"drift": "clean"}))
        return self.end(run)

    def read(self, run: Run) -> Run:
        """A run as it is now."""
        with self.transactions() as session:
            return session.get_one(Run, run.id)

    def results(self, run: Run) -> dict[str, Result]:
        """The results of a run by item."""
        with self.transactions() as session:
            return {result.item: result for result in session.scalars(select(Result).filter_by(run_id=run.id))}


def results_of(statuses: dict[str, str]) -> Iterable[CheckResult]:
    """A result for each item."""
    return [make_result(item=item, status=status) for item, status in statuses.items()]
