"""A team whose runs are told to a forge."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from service_team import Team
from sqlalchemy import select

from patchgen_core.checks.result import CheckResult
from patchgen_service.database.tables import Post, Repository, Run
from patchgen_service.posting.queueing import queue_run_posts
from patchgen_service.posting.sending import Postage, send_due_posts
from patchgen_service.records.baselines import choose_baseline

URL = "https://gate.example.org"


@dataclass
class PostingTeam:
    team: Team
    postage: Postage

    def queue(self, run: Run) -> None:
        with self.team.transactions() as session:
            queue_run_posts(session, run.id, URL, self.team.now, self.postage.access, self.team.store)

    def send(self, minutes: float = 0) -> int:
        self.team.now += timedelta(minutes=minutes)
        return send_due_posts(self.team.transactions, self.postage, lambda: self.team.now)

    def run(self, sha: str, *results: CheckResult, tells: bool = True, **cause: Any) -> Run:
        """A whole run that is told at its begin and its end."""
        base = cause.pop("merge_base", "")
        run = self.team.begin(sha, cause.pop("branch", "main"), **cause)
        if tells:
            self.queue(run)
        self.team.start(run)
        with self.team.transactions() as session:
            choose_baseline(session, run.id, base, None)
        self.team.add(run, *results)
        run = self.team.end(run)
        if tells:
            self.queue(run)
        return run

    def posts(self) -> dict[str, str]:
        with self.team.transactions() as session:
            return {post.key: post.state for post in session.scalars(select(Post))}

    def repository(self) -> Repository:
        with self.team.transactions() as session:
            return self.team.repository(session)

    def change(self, **columns: Any) -> None:
        with self.team.transactions() as session:
            repository = self.team.repository(session)
            for name, value in columns.items():
                setattr(repository, name, value)
