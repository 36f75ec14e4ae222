from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from service_samples import NOW

from patchgen_service.forges.clients import make_client
from patchgen_service.git.command import Remote
from patchgen_service.git.mirror import Mirror
from patchgen_service.git.writing import Author
from patchgen_service.posting.approving import Workshop
from patchgen_service.posting.release import CauseGroup, Proposal, ReleaseWork, propose_release
from tests.service.forges.forge_server import TOKEN
from tests.service.git.conftest import Origin

_BRANCH = "patchgen/transformers-5.30.0"
_WORK = ReleaseWork(
    "5.30.0",
    "",
    {"models/a.py": b"new\n"},
    (CauseGroup("<b>`forward` has other arguments", ("x",)), CauseGroup("attention moved", ("y", "z@ada"))),
)


class Desk:
    """A repository on a forge, and the service that proposes releases there."""

    def __init__(self, origin: Origin, folder, http, forge, store) -> None:
        self.origin, self.forge = origin, forge
        mirror = Mirror(folder / "mirror.git", Remote(f"file://{self.origin.bare}"))
        client = make_client(http, "github", forge.url, "acme/models", TOKEN)
        assert client is not None
        self.client = client
        self.workshop = Workshop(mirror, client, store, Author("patchgen", "gate@example.org"), "https://x")
        self.head = self.origin.commit("Begin", **{"models/a.py": "old\n"})

    def propose(self, days: int = 0, **changes: object) -> Proposal:
        work = replace(_WORK, **{"sha": self.head, **changes})  # type: ignore[arg-type]
        return propose_release(self.workshop, self.client, work, "main", NOW + timedelta(days=days))


@pytest.fixture
def desk(new_origin, tmp_path, http, forge, store) -> Desk:
    return Desk(new_origin.copy_to(tmp_path), tmp_path, http, forge, store)


def test_it_carries_what_merges_and_lists_the_rest_by_cause(desk: Desk) -> None:
    assert desk.propose() == Proposal("open", f"{desk.forge.url}/pull/1")
    assert desk.origin.read(f"{_BRANCH}^") == desk.head
    (request,) = desk.forge.pull_requests
    assert request["title"] == "Move 1 file to transformers 5.30.0"
    body = request["body"]
    assert body.index("attention moved") < body.index("forward")
    assert "\\<b\\>" in body


def test_a_week_later_nothing_is_pushed_unless_something_changed(desk: Desk) -> None:
    desk.propose()
    first = desk.origin.read(_BRANCH)
    desk.propose(days=7)
    assert desk.origin.read(_BRANCH) == first
    desk.head = desk.origin.commit("Main goes on", other="x\n")
    desk.propose(days=14, rest=())
    assert desk.origin.read(f"{_BRANCH}^") == desk.head
    assert [("by cause" in request["body"]) for request in desk.forge.pull_requests] == [False]


def test_what_somebody_committed_to_its_branch_stays(desk: Desk) -> None:
    desk.propose()
    desk.origin.run("fetch", "-q", "origin")
    desk.origin.run("checkout", "-q", "--detach", f"origin/{_BRANCH}")
    theirs = desk.origin.commit("Mend the rest", branch=_BRANCH, mended="x\n")
    desk.propose(files={"models/a.py": b"newer\n"})
    assert desk.origin.read(_BRANCH) == theirs


def test_where_nothing_merges_there_is_no_pull_request(desk: Desk) -> None:
    assert desk.propose(files={}) == Proposal("nothing")
    assert desk.propose(files={}, rest=()) == Proposal("on main")
    assert desk.forge.pull_requests == []


@pytest.mark.parametrize(("rest", "state"), [((), "on main"), (_WORK.rest, "nothing")])
def test_it_is_closed_when_the_release_is_on_main(desk: Desk, rest, state) -> None:
    desk.propose()
    for _ in range(2):
        assert desk.propose(files={}, rest=rest) == Proposal(state, f"{desk.forge.url}/pull/1")
    (request,) = desk.forge.pull_requests
    assert request["state"] == "closed"
    assert "is on `main`" in request["body"]
    assert ("attention moved" in request["body"]) == bool(rest)


def test_one_that_people_closed_is_not_opened_again(desk: Desk) -> None:
    desk.propose()
    first = desk.origin.read(_BRANCH)
    desk.forge.pull_requests[0]["state"] = "closed"
    desk.head = desk.origin.commit("Main goes on", other="x\n")
    assert desk.propose(days=7) == Proposal("declined", f"{desk.forge.url}/pull/1")
    assert (len(desk.forge.pull_requests), desk.origin.read(_BRANCH)) == (1, first)


def test_after_one_was_merged_what_is_left_gets_another(desk: Desk) -> None:
    desk.propose()
    desk.forge.pull_requests[0].update(state="closed", merged_at="2026-11-23T12:00:00Z")
    desk.head = desk.origin.commit("Merge", **{"models/a.py": "new\n"})
    assert desk.propose(days=7, files={"models/b.py": b"new\n"}).state == "open"
    assert [request["state"] for request in desk.forge.pull_requests] == ["closed", "open"]


def test_a_newer_release_closes_the_pull_request_of_an_older_one(desk: Desk) -> None:
    desk.propose()
    desk.origin.commit("Theirs", branch="patchgen/transformers-main")
    desk.propose(version="5.31.0rc1")
    assert [request["state"] for request in desk.forge.pull_requests] == ["open", "open"]
    desk.propose(version="5.31.0")
    assert [request["state"] for request in desk.forge.pull_requests] == ["closed", "closed", "open"]
    assert desk.forge.pull_requests[0]["body"] == f"transformers 5.31.0 is out: {desk.forge.url}/pull/3"
