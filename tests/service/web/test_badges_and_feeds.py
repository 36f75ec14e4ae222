"""Badges and feeds: for everybody where the repository is public, else for who has signed in or shows a token."""

from __future__ import annotations

from datetime import timedelta
from xml.etree import ElementTree

from service_samples import NOW
from service_team import Team
from web_visitors import Visitor, add_member

from patchgen_service.accounts.people import find_person
from patchgen_service.accounts.tokens import add_token

BADGE, FEED = "/badge/1/release/1.svg", "/feeds/1.atom"


def label(badge: str) -> str:
    return ElementTree.fromstring(badge).attrib["aria-label"]


def make_public(team: Team) -> None:
    with team.transactions() as session:
        team.repository(session).is_public = True


def test_a_badge_says_how_the_newest_run_ended_that_says_something(sqlite_team: Team, visitor: Visitor) -> None:
    make_public(sqlite_team)
    assert label(visitor.get(BADGE).text) == "patchgen: no run"
    sqlite_team.run("a" * 40, {"drift": "drifted"}, branch="release/1")
    sqlite_team.run("b" * 40, branch="main")
    sqlite_team.run("b" * 40, branch="release/1", kind="release", transformers="9.9.9")
    sqlite_team.begin("c" * 40, branch="release/1")
    answer = visitor.get(BADGE)
    assert (label(answer.text), answer.headers["content-type"]) == ("patchgen: drifted", "image/svg+xml")
    assert answer.headers["cache-control"] == "public, max-age=60"
    assert label(visitor.get("/badge/1/main.svg").text) == "patchgen: passed"


def test_what_has_not_changed_is_not_sent_again(sqlite_team: Team, visitor: Visitor) -> None:
    make_public(sqlite_team)
    for address in (BADGE, FEED):
        tag = visitor.get(address).headers["etag"]
        again = visitor.get(address, headers={"if-none-match": f'"other", W/{tag}'})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    sqlite_team.run("a" * 40, branch="release/1")
    assert visitor.get(BADGE, headers={"if-none-match": tag}).status_code == 200
    assert visitor.get(FEED, headers={"if-none-match": tag}).status_code == 200


def test_the_feed_has_runs_that_ended_with_addresses_of_this_service(sqlite_team: Team, visitor: Visitor) -> None:
    make_public(sqlite_team)
    run = sqlite_team.run("a" * 40, subject="Change <b>", author="Ada")
    sqlite_team.begin("b" * 40)
    answer = visitor.get(FEED)
    assert answer.headers["content-type"] == "application/atom+xml"
    ids = [entry.text for entry in ElementTree.fromstring(answer.content).iter("{http://www.w3.org/2005/Atom}id")]
    assert ids == ["http://127.0.0.1/feeds/1.atom", f"http://127.0.0.1/runs/{run.id}"]
    assert f'href="{FEED}"' in visitor.get("/repositories/1").text
    assert 'src="/badge/1/main.svg"' in visitor.get("/repositories/1/branches/main").text


def test_of_a_private_repository_only_who_may_read_it_sees_them(sqlite_team: Team, visitor: Visitor) -> None:
    add_member(sqlite_team, "ada", "viewer")
    add_member(sqlite_team, "eve")
    tokens = {}
    with sqlite_team.transactions() as session:
        for name, scope, days in (("ada", "read", 1), ("ada", "run", 1), ("ada", "read", -1), ("eve", "read", 1)):
            expires = NOW + timedelta(days=days)
            person = find_person(session, name)
            tokens[name, scope, days] = add_token(session, person, "t", [scope], NOW, expires=expires)
    for address in (BADGE, FEED):
        assert visitor.get(address).status_code == 404
        codes = [visitor.get(address, params={"token": token}).status_code for token in (*tokens.values(), "tok_x")]
        assert codes == [200, 404, 404, 404, 404]
        assert visitor.get("/feeds/99999999999999999999.atom", params={"token": "x"}).status_code == 404
    answer = visitor.get(BADGE, params={"token": tokens["ada", "read", 1]})
    assert answer.headers["cache-control"] == "private, max-age=60"
    visitor.enter("ada")
    assert [visitor.get(address).status_code for address in (BADGE, FEED)] == [200, 200]
