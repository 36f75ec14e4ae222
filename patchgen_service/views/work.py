"""What the service is doing: runs under way, workers, and what is still to be posted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from patchgen_service.database.tables import Post, Repository, Run, Worker
from patchgen_service.database.words import UNFINISHED
from patchgen_service.views.lines import RunLine, Visible, is_visible, read_lines
from patchgen_service.views.rows import read_as

_MOST_POSTS = 100


@dataclass(frozen=True)
class WorkerLine:
    """A process that carries runs out."""

    name: str
    host: str
    process: int
    isolation: str
    started: datetime
    seen: datetime


@dataclass(frozen=True)
class PostLine:
    """Something that is to be told elsewhere, and has not been, or could not be."""

    id: int
    repository_id: int
    repository: str
    run_id: str | None
    kind: str
    subject: str
    state: str
    attempts: int
    error: str
    created: datetime
    due: datetime


@dataclass(frozen=True)
class Work:
    """What is under way, the oldest first, what ended last, and how many posts there are by state."""

    unfinished: tuple[RunLine, ...]
    ended: tuple[RunLine, ...]
    workers: tuple[WorkerLine, ...]
    posts: tuple[PostLine, ...]
    post_counts: Mapping[str, int]


def read_work(session: Session, visible: Visible, limit: int = 20) -> Work:
    """What the service is doing for the repositories that may be seen."""
    unfinished = read_lines(session, Run.status.in_(UNFINISHED), is_visible(visible))
    ended = read_lines(session, Run.ended.is_not(None), is_visible(visible), limit=limit)
    workers = select(Worker.name, Worker.host, Worker.process, Worker.isolation, Worker.started, Worker.seen)
    counts = (
        select(Post.state, func.count())
        .join(Repository, Repository.id == Post.repository_id)
        .where(is_visible(visible))
        .group_by(Post.state)
    )
    return Work(
        tuple(reversed(unfinished)),
        tuple(ended),
        read_as(session, WorkerLine, workers.order_by(Worker.seen.desc())),
        _posts(session, visible),
        {row[0]: row[1] for row in session.execute(counts)},
    )


def _posts(session: Session, visible: Visible) -> tuple[PostLine, ...]:
    query = (
        select(
            Post.id,
            Post.repository_id,
            Repository.name,
            Post.run_id,
            Post.kind,
            Post.subject,
            Post.state,
            Post.attempts,
            Post.error,
            Post.created,
            Post.due,
        )
        .join(Repository, Repository.id == Post.repository_id)
        .where(is_visible(visible), or_(Post.state.in_(("waiting", "failed")), Post.error != ""))
        .order_by(Post.id.desc())
        .limit(_MOST_POSTS)
    )
    return read_as(session, PostLine, query)
