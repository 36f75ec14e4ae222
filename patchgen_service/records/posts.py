"""The outbox: what is to be told elsewhere, told once, and again until it arrives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import exists, or_, select, update
from sqlalchemy.orm import Session, aliased

from patchgen_service.database.statements import insert_once, lock_name, lock_row
from patchgen_service.database.tables import Post, Run
from patchgen_service.database.words import PostKind

FIRST_DELAY = timedelta(seconds=10)
LONGEST_DELAY = timedelta(hours=1)
MOST_ATTEMPTS = 14
"""With the delays between them, these take about seven hours."""
LEASE = timedelta(minutes=5)
"""For so long, a process that took a post is waited for."""
_LONGEST = 300


def queue_post(
    session: Session,
    repository_id: int,
    kind: PostKind,
    subject: str,
    key: str,
    content: Mapping[str, Any],
    now: datetime,
    run: Run | None = None,
) -> Post:
    """The post of a key: a new one, or the one there is.

    Older posts of the subject that wait are obsolete, and so is this one where a newer run's is there already.
    """
    for text in (subject, key):
        if len(text) > _LONGEST:
            raise ValueError(f"the subject and the key of a post have at most {_LONGEST} characters")
    lock_name(session, f"post {subject}")
    run_id = run.id if run is not None else None
    values = {"repository_id": repository_id, "run_id": run_id, "kind": kind, "subject": subject, "key": key}
    is_new = insert_once(session, Post, **values, content=dict(content), created=now, due=now)
    post = session.scalars(select(Post).filter_by(key=key)).one()
    if not is_new:
        return post
    if run is not None and _is_late(session, post, run):
        post.state = "obsolete"
    else:
        older = update(Post).where(Post.subject == subject, Post.id < post.id, Post.state == "waiting")
        session.execute(older.values(state="obsolete"), execution_options={"synchronize_session": "fetch"})
    session.flush()
    return post


def take_due_posts(session: Session, now: datetime, most: int = 20) -> Sequence[Post]:
    """Posts that are due, for this process to send at once; others take them when it is silent for :data:`LEASE`.

    Each comes with the ``remote`` id of what was made of its subject before. Of one subject, one post is sent at a
    time. A due time that no delay explains is one of a clock that has jumped since, and counts as come.
    """
    is_due = (Post.due <= now) | (Post.due > now + 2 * LONGEST_DELAY)
    other = aliased(Post)
    is_busy = exists().where(
        other.subject == Post.subject, other.state == "sending", other.due > now, other.due <= now + 2 * LEASE
    )
    due = select(Post).where(or_((Post.state == "waiting") & is_due & ~is_busy, (Post.state == "sending") & is_due))
    posts: dict[str, Post] = {}
    for post in session.scalars(due.order_by(Post.id).limit(most).with_for_update(skip_locked=True)):
        if (older := posts.get(post.subject)) is not None:
            older.state = "obsolete"
        posts[post.subject] = post
    for post in posts.values():
        post.state, post.due, post.attempts = "sending", now + LEASE, post.attempts + 1
        post.remote = post.remote or find_remote(session, post.subject)
    session.flush()
    return list(posts.values())


def find_remote(session: Session, subject: str) -> str:
    """The id of what a forge made of a subject; empty where it has made nothing yet."""
    sent = select(Post.remote).where(Post.subject == subject, Post.remote != "")
    return session.scalar(sent.order_by(Post.id.desc()).limit(1)) or ""


def mark_sent(session: Session, post_id: int, remote: str, now: datetime) -> None:
    """Note that a post has arrived, and what the forge made of it."""
    post = lock_row(session, Post, post_id)
    if post is not None:
        post.state, post.sent, post.error = "sent", now, ""
        post.remote = remote or post.remote


def mark_failed(
    session: Session,
    post_id: int,
    error: str,
    now: datetime,
    retry_after: timedelta | None = None,
    is_final: bool = False,
) -> None:
    """Note that a post has not arrived: it is tried again later, unless that is of no use or was done too often.

    ``retry_after`` is what the forge asks for; no wait is longer than an hour.
    """
    post = lock_row(session, Post, post_id)
    if post is None or post.state != "sending":
        return
    post.error = error[:1000]
    if is_final or post.attempts >= MOST_ATTEMPTS:
        post.state = "failed"
        return
    newer = exists().where(Post.subject == post.subject, Post.id > post.id, Post.state != "failed")
    post.state = "obsolete" if session.scalar(select(newer)) else "waiting"
    delay = min(FIRST_DELAY * 2 ** min(post.attempts - 1, 20), LONGEST_DELAY)
    post.due = now + min(max(delay, retry_after or delay), LONGEST_DELAY)


def retry_post(session: Session, post_id: int, now: datetime) -> None:
    """Try a post again that was given up."""
    post = lock_row(session, Post, post_id)
    if post is not None and post.state == "failed":
        post.state, post.due, post.attempts = "waiting", now, 0


def _is_late(session: Session, post: Post, run: Run) -> bool:
    """Whether a newer run has spoken about the subject already."""
    spoken = select(Post.id).join(Run, Run.id == Post.run_id)
    newer = spoken.where(Post.subject == post.subject, Post.id != post.id, Run.number > run.number)
    return session.scalar(newer.limit(1)) is not None
