"""Signing in with an account on a forge, against a server that speaks OAuth as forges do."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from oauth_server import CLIENT, SECRET, OAuthServer
from service_samples import NOW
from service_team import Team
from web_visitors import Visitor, add_member, words_of

from patchgen_service.accounts.forge_accounts import expect_account
from patchgen_service.accounts.people import find_person, name_provider, set_active
from patchgen_service.accounts.roles import find_role
from patchgen_service.settings import ServiceSettings, SignInSettings
from patchgen_service.web.site import Site

PAGE = "/sign-in?next=/approvals"


@pytest.fixture(scope="module")
def one_server() -> Iterator[OAuthServer]:
    server = OAuthServer()
    yield server
    server.close()


@pytest.fixture
def server(one_server: OAuthServer) -> OAuthServer:
    one_server.is_willing, one_server.is_broken = True, False
    one_server.account = {"id": 42, "login": "ada", "username": "ada", "email": "ada@example.com"}
    return one_server


@pytest.fixture
def enter(site: Site, server: OAuthServer) -> Callable[..., Visitor]:
    """A browser at a service that has this forge to sign in with."""

    def make(forge: str = "github", unknown: str = "refuse", **more: object) -> Visitor:
        sign_in = SignInSettings(forge, server.url, CLIENT, SECRET, unknown)
        settings = ServiceSettings(site.settings.folder, sign_ins=(sign_in,))
        return Visitor(dataclasses.replace(site, settings=settings, **more))  # type: ignore[arg-type]

    return make


def leave(visitor: Visitor, forge: str = "github", page: str = PAGE, **fields: str) -> str:
    """Press the button; returns the address at this service that the forge sends the browser back to."""
    visitor.follow_redirects = False
    answer = visitor.submit(page, f"/sign-in/{forge}", next="/approvals", **fields)
    visitor.follow_redirects = True
    assert answer.status_code == 303, answer.text
    address = answer.headers["location"]
    allowed = answer.headers["content-security-policy"].partition("form-action ")[2].partition(";")[0]
    assert "{0.scheme}://{0.netloc}".format(urlsplit(address)) in allowed.split()
    return httpx.get(address, follow_redirects=False).headers["location"]


def reach(visitor: Visitor, **options: str) -> httpx.Response:
    """Go to the forge and come back."""
    return visitor.get(leave(visitor, **options))  # type: ignore[return-value]


def link_by_hand(team: Team, forge: str, url: str, login: str = "Ada") -> None:
    add_member(team, "lovelace", "approver")
    with team.transactions() as session:
        expect_account(session, find_person(session, "lovelace"), name_provider(forge, url), login, "root", NOW)


@pytest.mark.parametrize("forge", ["github", "gitlab", "forgejo"])
@pytest.mark.mostly_slow(1)
def test_a_linked_account_comes_in_with_its_roles(
    sqlite_team: Team, server: OAuthServer, enter: Callable[..., Visitor], forge: str
) -> None:
    link_by_hand(sqlite_team, forge, server.url)
    page = reach(enter(forge), forge=forge)
    assert page.url.path == "/approvals"
    assert "lovelace" in page.text
    server.account = {**server.account, "login": "renamed", "username": "renamed"}
    assert "lovelace" in reach(enter(forge), forge=forge).text
    server.account = {**server.account, "id": 43, "login": "ada", "username": "ada"}
    assert reach(enter(forge), forge=forge).status_code == 403  # somebody else took the login that ada gave up


def test_an_unknown_account_is_refused_or_becomes_a_viewer(sqlite_team: Team, enter: Callable[..., Visitor]) -> None:
    refused = reach(enter())
    assert (refused.status_code, "Nobody here is linked with 'ada'" in words_of(refused.text)) == (403, True)
    assert reach(enter(unknown="viewer")).url.path == "/approvals"
    with sqlite_team.transactions() as session:
        person = find_person(session, "ada")
        assert (person.email, person.is_admin) == ("ada@example.com", False)
        assert find_role(session, person, sqlite_team.repository(session)) == "viewer"
        set_active(session, person, False, "root", NOW)
    assert reach(enter(unknown="viewer")).status_code == 403


def test_who_is_signed_in_links_an_account_that_nobody_else_has(
    sqlite_team: Team, enter: Callable[..., Visitor]
) -> None:
    for name in ("ada", "bob"):
        add_member(sqlite_team, name, "viewer")
    first, second = enter(), enter()
    first.enter("ada")
    assert "not linked" in words_of(first.get("/settings").text)
    assert ": linked" in words_of(reach(first, page="/settings", link="1").text)
    second.enter("bob")
    refused = reach(second, page="/settings", link="1")
    assert (refused.status_code, "linked with another person" in words_of(refused.text)) == (409, True)
    assert "ada" in reach(enter()).text.partition("<main")[0]


def test_only_the_browser_that_left_comes_back_and_once(sqlite_team: Team, enter: Callable[..., Visitor]) -> None:
    left, other = enter(unknown="viewer"), enter(unknown="viewer")
    address = leave(left)
    leave(other)
    assert other.get(address).status_code == 400  # a state that is another browser's
    assert enter(unknown="viewer").get(address).status_code == 400
    assert left.get(address).status_code == 200
    assert left.get(address).status_code == 400
    assert enter().post("/sign-in/github").status_code == 403  # not by a form of these pages
    assert enter().get("/sign-in/gitlab/back").status_code == 404


def test_a_sign_in_that_takes_too_long_is_begun_again(enter: Callable[..., Visitor]) -> None:
    visitor, moment = enter(clock=lambda: moment), NOW  # type: ignore[misc]
    address = leave(visitor)
    moment = NOW + timedelta(minutes=11)
    assert visitor.get(address).status_code == 400


def test_a_code_needs_the_verifier_that_was_made_for_it(sqlite_team: Team, enter: Callable[..., Visitor]) -> None:
    victim, thief = enter(unknown="viewer"), enter(unknown="viewer")
    stolen = parse_qs(urlsplit(leave(victim)).query)["code"][0]
    own = parse_qs(urlsplit(leave(thief)).query)
    answer = thief.get("/sign-in/github/back", params={"code": stolen, "state": own["state"][0]})
    assert (answer.status_code, "The code is incorrect or expired" in words_of(answer.text)) == (502, True)


def test_what_goes_wrong_at_the_forge_is_said(server: OAuthServer, enter: Callable[..., Visitor]) -> None:
    server.is_willing = False
    assert "The user has denied your application access" in words_of(reach(enter()).text)
    server.is_willing, server.is_broken = True, True
    answer = reach(enter())
    assert (answer.status_code, "it answered 500" in words_of(answer.text)) == (502, True)
    server.is_broken, server.account = False, {"id": None, "login": "<b>"}
    assert "names no account" in words_of(reach(enter()).text)


def test_without_forges_nobody_is_sent_to_one(visitor: Visitor) -> None:
    assert "Sign in with" not in visitor.get("/sign-in").text
    assert "form-action 'self';" in visitor.get("/sign-in").headers["content-security-policy"]
