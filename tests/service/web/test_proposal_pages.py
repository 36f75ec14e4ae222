"""The button and the call that have a release proposed, and what the page says became of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from service_samples import NOW
from service_team import Team
from web_visitors import Visitor, add_member, make_site, words_of

from patchgen_service.accounts.people import find_person
from patchgen_service.accounts.tokens import add_token
from patchgen_service.database.tables import Release
from patchgen_service.records.proposals import ProposalNote, note_proposal
from patchgen_service.web.site import NoWork

_EVIL = "<img src=x onerror=alert(1)>'; DROP TABLE run;--"
_NOTE = ProposalNote("5.30.0", "open", NOW, "https://git.example/pulls/1", files=3, causes=1)


class Worker(NoWork):
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str, str]] = []

    def propose_release(self, repository_id: int, version: str, actor: str) -> None:
        self.asked.append((repository_id, version, actor))


@pytest.fixture
def worker(sqlite_team: Team) -> Worker:
    with sqlite_team.transactions() as session:
        sqlite_team.repository(session).forge = "github"
        session.add(Release(version="5.30.0", seen=NOW))
    for name, role in (("ada", "approver"), ("vera", "viewer")):
        add_member(sqlite_team, name, role)
    return Worker()


@pytest.fixture
def visitor(sqlite_team: Team, tmp_path: Path, worker: Worker) -> Visitor:
    return Visitor(replace(make_site(sqlite_team.transactions, sqlite_team.store, tmp_path), work=worker))


def _note(team: Team, note: ProposalNote) -> None:
    with team.transactions() as session:
        note_proposal(session, team.repository(session), "service", note)


def test_an_approver_has_the_newest_release_proposed(visitor: Visitor, worker: Worker) -> None:
    visitor.enter("ada")
    page = visitor.submit("/repositories/1/releases", "/repositories/1/releases/propose")
    assert (page.status_code, page.url.path) == (200, "/repositories/1/releases")
    assert "A pull request for transformers 5.30.0 is being made." in words_of(page.text)
    visitor.submit("/repositories/1/releases", "/repositories/1/releases/propose", version="5.30.0")
    assert worker.asked == [(1, "5.30.0", "ada"), (1, "5.30.0", "ada")]
    unknown = visitor.submit("/repositories/1/releases", "/repositories/1/releases/propose", version=_EVIL)
    assert unknown.status_code == 409
    assert "<img" not in unknown.text


def test_before_a_release_was_seen_there_is_nothing_to_propose(
    sqlite_team: Team, visitor: Visitor, worker: Worker
) -> None:
    with sqlite_team.transactions() as session:
        session.delete(session.get_one(Release, "5.30.0"))
    visitor.enter("ada")
    page = visitor.submit("/settings", "/repositories/1/releases/propose")
    assert (page.status_code, worker.asked) == (409, [])
    assert "No release of transformers has been seen yet." in page.text


def test_a_viewer_has_no_button(visitor: Visitor, worker: Worker) -> None:
    visitor.enter("vera")
    assert "Propose the newest release" not in visitor.get("/repositories/1/releases").text
    assert visitor.submit("/settings", "/repositories/1/releases/propose").status_code == 403
    assert worker.asked == []


@pytest.mark.parametrize(
    ("note", "words"),
    [
        (_NOTE, "The pull request for transformers 5.30.0 carries 3 files; 1 cause of what is left to people."),
        (replace(_NOTE, state="declined"), "was closed by people, and is left alone."),
        (replace(_NOTE, state="on main"), "transformers 5.30.0 is on main."),
        (replace(_NOTE, state="nothing"), "Nothing more merges cleanly into transformers 5.30.0; 1 cause"),
        (
            replace(_NOTE, state="failed", message=_EVIL),
            f"could be made: {_EVIL}",
        ),
    ],
)
def test_the_page_says_what_became_of_it(sqlite_team: Team, visitor: Visitor, note: ProposalNote, words: str) -> None:
    _note(sqlite_team, note)
    visitor.enter("vera")
    page = visitor.get("/repositories/1/releases").text
    assert words in words_of(page)
    assert "<img" not in page


def test_an_address_that_is_none_is_no_link(sqlite_team: Team, visitor: Visitor) -> None:
    _note(sqlite_team, replace(_NOTE, url="javascript:alert(1)"))
    visitor.enter("vera")
    assert "javascript:" not in visitor.get("/repositories/1/releases").text


def test_a_script_proposes_and_asks_what_became_of_it(sqlite_team: Team, visitor: Visitor, worker: Worker) -> None:
    with sqlite_team.transactions() as session:
        tokens = {
            name: add_token(session, find_person(session, name), "script", ["read", "approve"], NOW)
            for name in ("ada", "vera")
        }
    address, headers = "/api/v1/repositories/1/proposals", {"authorization": f"Bearer {tokens['ada']}"}
    assert visitor.get(address, headers=headers).json() is None
    assert visitor.post(address, json={"version": "5.30.0"}, headers=headers).status_code == 202
    assert visitor.post(address, json={}, headers=headers).status_code == 202
    assert visitor.post(address, json={"version": "6"}, headers=headers).status_code == 404
    as_viewer = {"authorization": f"Bearer {tokens['vera']}"}
    assert visitor.post(address, json={}, headers=as_viewer).status_code == 403
    assert visitor.post(address, json={}).status_code in (401, 404)
    assert worker.asked == [(1, "5.30.0", "ada")] * 2
    assert visitor.get(address, headers=headers).json()["state"] == "waiting"
    _note(sqlite_team, _NOTE)
    answer = visitor.get(address, headers=headers).json()
    assert (answer["version"], answer["state"], answer["url"]) == ("5.30.0", "open", "https://git.example/pulls/1")
