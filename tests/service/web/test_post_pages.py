"""What a forge did not take is on the page with the reason, and can be tried again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from service_samples import NOW
from service_team import Team
from web_visitors import Visitor, add_member, words_of

from patchgen_service.database.tables import AuditEntry, Post
from patchgen_service.records.posts import MOST_ATTEMPTS, mark_failed, queue_post, take_due_posts

_REASONS = (
    "git.example answered 500: <img src=x onerror=alert(1)>",
    "git.example answered 429: slow down",
    "git.example did not answer: timed out",
)


@pytest.fixture
def failed(sqlite_team: Team) -> int:
    """Posts that a forge did not take, of which the last is given up; its number."""
    for number, reason in enumerate(_REASONS):
        with sqlite_team.transactions() as session:
            post = queue_post(session, 1, "status", f"status {number}", f"key {number}", {}, NOW)
        for _ in range(MOST_ATTEMPTS if number == 2 else 1):
            with sqlite_team.transactions() as session:
                session.get_one(Post, post.id).due = NOW
                assert [taken.id for taken in take_due_posts(session, NOW)] == [post.id]
            with sqlite_team.transactions() as session:
                mark_failed(session, post.id, reason, NOW, timedelta(minutes=30) if number == 1 else None)
    for name, role in (("ada", "approver"), ("vera", "viewer")):
        add_member(sqlite_team, name, role)
    return post.id


def test_what_a_forge_did_not_take_is_shown_with_the_reason(visitor: Visitor, failed: int) -> None:
    visitor.enter("vera")
    page = visitor.get("/work").text
    for reason in _REASONS:
        assert reason in words_of(page)
    assert "1 failed, 2 waiting" in words_of(page)
    assert "<img" not in page
    assert "Try again" not in page


def test_what_was_given_up_is_tried_again_on_demand(sqlite_team: Team, visitor: Visitor, failed: int) -> None:
    visitor.enter("vera")
    assert visitor.submit("/settings", f"/posts/{failed}/retry").status_code == 403
    visitor.enter("ada")
    assert "Try again" in visitor.get("/work").text
    assert visitor.submit("/work", f"/posts/{failed}/retry").url.path == "/work"
    with sqlite_team.transactions() as session:
        post = session.get_one(Post, failed)
        assert (post.state, post.attempts) == ("waiting", 0)
        assert session.query(AuditEntry).filter_by(action="post.retry", actor="ada").count() == 1
    assert visitor.submit("/work", "/posts/999999999999999999999/retry").status_code == 404
