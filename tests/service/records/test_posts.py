"""The outbox: what is to be told arrives once, be it late, and what is newer is what stays told."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
from service_samples import NOW
from service_team import Team

from patchgen_service.database.tables import Post, Run
from patchgen_service.records.posts import (
    FIRST_DELAY,
    LEASE,
    LONGEST_DELAY,
    MOST_ATTEMPTS,
    mark_failed,
    mark_sent,
    queue_post,
    retry_post,
    take_due_posts,
)


def queue(team: Team, key: str, subject: str = "comment 7", run: Run | None = None, now: datetime = NOW) -> Post:
    with team.transactions() as session:
        return queue_post(session, 1, "comment", subject, key, {"text": key}, now, run)


def take(team: Team, now: datetime = NOW) -> list[str]:
    with team.transactions() as session:
        return [post.key for post in take_due_posts(session, now)]


def state(team: Team, post: Post) -> str:
    with team.transactions() as session:
        return session.get_one(Post, post.id).state


def test_a_post_is_queued_once_and_taken_once(team: Team) -> None:
    first = queue(team, "a")
    assert queue(team, "a").id == first.id
    assert take(team) == ["a"]
    assert take(team) == []
    with team.transactions() as session:
        mark_sent(session, first.id, "remote 1", NOW)
    assert take(team, NOW + timedelta(days=1)) == []
    assert queue(team, "a").state == "sent"


def test_of_many_that_take_posts_at_once_each_post_goes_to_one(team: Team) -> None:
    keys = [f"key {number}" for number in range(30)]
    for key in keys:
        queue(team, key, subject=key)
    with ThreadPoolExecutor(6) as pool:
        taken = [key for part in pool.map(lambda _: take(team), range(12)) for key in part]
    assert sorted(taken) == sorted(keys)


def test_a_newer_post_replaces_one_that_waits_and_edits_what_was_sent(team: Team) -> None:
    first = queue(team, "first")
    assert take(team) == ["first"]
    with team.transactions() as session:
        mark_sent(session, first.id, "remote 1", NOW)
    second, third = queue(team, "second"), queue(team, "third")
    assert state(team, second) == "obsolete"
    with team.transactions() as session:
        (post,) = take_due_posts(session, NOW)
        assert (post.id, post.remote) == (third.id, "remote 1")


def test_a_newer_post_waits_until_it_is_known_what_became_of_the_one_that_is_sent(team: Team) -> None:
    first = queue(team, "first")
    take(team)
    second = queue(team, "second")
    assert take(team) == []
    with team.transactions() as session:
        mark_sent(session, first.id, "remote 1", NOW)
    assert take(team) == ["second"]
    with team.transactions() as session:
        assert session.get_one(Post, second.id).remote == "remote 1"


def test_a_post_that_fails_while_a_newer_waits_is_obsolete(team: Team) -> None:
    first = queue(team, "first")
    take(team)
    queue(team, "second")
    with team.transactions() as session:
        mark_failed(session, first.id, "500", NOW)
    assert state(team, first) == "obsolete"
    assert take(team) == ["second"]


def test_a_post_of_a_process_that_died_is_taken_by_another(team: Team) -> None:
    queue(team, "a")
    take(team)
    assert take(team, NOW + LEASE - timedelta(seconds=1)) == []
    assert take(team, NOW + LEASE) == ["a"]


def test_after_a_death_the_newest_post_of_a_subject_is_sent(team: Team) -> None:
    first = queue(team, "first")
    take(team)
    queue(team, "second")
    assert take(team, NOW + LEASE) == ["second"]
    assert state(team, first) == "obsolete"


def test_failures_are_tried_again_ever_later_and_given_up_at_last(sqlite_team: Team) -> None:
    post, now, delays = queue(sqlite_team, "a"), NOW, []
    while take(sqlite_team, now):
        with sqlite_team.transactions() as session:
            mark_failed(session, post.id, "the forge answers 500", now)
            waiting = session.get_one(Post, post.id)
            delays.append(waiting.due - now)
            now = waiting.due if waiting.state == "waiting" else now
    assert delays[:4] == [FIRST_DELAY, FIRST_DELAY * 2, FIRST_DELAY * 4, FIRST_DELAY * 8]
    assert max(delays) == LONGEST_DELAY
    assert len(delays) == MOST_ATTEMPTS
    assert state(sqlite_team, post) == "failed"
    with sqlite_team.transactions() as session:
        retry_post(session, post.id, now)
    assert take(sqlite_team, now) == ["a"]


def test_what_a_forge_asks_for_is_waited_but_no_longer_than_an_hour(sqlite_team: Team) -> None:
    post = queue(sqlite_team, "a")
    for asked, waited in ((timedelta(minutes=10), timedelta(minutes=10)), (timedelta(days=9), LONGEST_DELAY)):
        assert take(sqlite_team) == ["a"]
        with sqlite_team.transactions() as session:
            mark_failed(session, post.id, "429", NOW, retry_after=asked)
            row = session.get_one(Post, post.id)
            assert row.due == NOW + waited
            row.due = NOW


def test_what_can_never_arrive_is_given_up_at_once(sqlite_team: Team) -> None:
    post = queue(sqlite_team, "a")
    take(sqlite_team)
    with sqlite_team.transactions() as session:
        mark_failed(session, post.id, "404", NOW, is_final=True)
    assert state(sqlite_team, post) == "failed"


@pytest.mark.parametrize("before", ["waiting", "sending"])
def test_a_clock_that_jumped_ahead_and_back_does_not_hold_posts_back(team: Team, before: str) -> None:
    future = NOW + timedelta(days=3650)
    post = queue(team, "a", now=future)
    if before == "sending":
        assert take(team, future) == ["a"]
    assert take(team, NOW) == ["a"]
    queue(team, "b")
    with team.transactions() as session:
        mark_sent(session, post.id, "1", NOW)
    assert take(team, NOW) == ["b"]


def test_an_older_run_says_nothing_after_a_newer_one(team: Team) -> None:
    older, newer = team.begin("a" * 40, "one"), team.begin("b" * 40, "two")
    first = queue(team, "newer", run=newer)
    late = queue(team, "older", run=older)
    assert (first.state, late.state) == ("waiting", "obsolete")
    assert take(team) == ["newer"]


def test_a_subject_that_is_too_long_is_refused(sqlite_team: Team) -> None:
    with pytest.raises(ValueError, match="at most 300 characters"):
        queue(sqlite_team, "k" * 301)
