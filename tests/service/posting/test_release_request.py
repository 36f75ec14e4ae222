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
from patchgen_service.posting.release import CauseGroup, ReleaseWork, propose_release
from tests.service.forges.forge_server import TOKEN
from tests.service.git.conftest import Origin

_BRANCH = "patchgen/transformers-5.30.0"
_WORK = ReleaseWork(
    "5.30.0",
    {"models/a.py": b"new\n"},
    (CauseGroup("<b>`forward` has other arguments", ("x",)), CauseGroup("attention moved", ("y", "z@ada"))),
)


@pytest.fixture
def origin(tmp_path) -> Origin:
    return Origin(tmp_path)


@pytest.fixture
def workshop(origin, tmp_path, http, forge, store) -> Workshop:
    mirror = Mirror(tmp_path / "mirror.git", Remote(f"file://{origin.bare}"))
    client = make_client(http, "github", forge.url, "acme/models", TOKEN)
    return Workshop(mirror, client, store, Author("patchgen", "gate@example.org"), "https://gate.example.org")


def _begin(origin: Origin) -> str:
    return origin.commit("Begin", **{"models/a.py": "old\n"})


def test_it_carries_what_merges_and_lists_the_rest_by_cause(origin, workshop, forge) -> None:
    head = _begin(origin)
    propose_release(workshop, _WORK, "main", NOW)
    assert origin.read(f"{_BRANCH}^") == head
    (request,) = forge.pull_requests
    assert request["title"] == "Move 1 file to transformers 5.30.0"
    body = request["body"]
    assert body.index("attention moved") < body.index("forward")
    assert "\\<b\\>" in body


def test_a_week_later_nothing_is_pushed_unless_something_changed(origin, workshop, forge) -> None:
    _begin(origin)
    propose_release(workshop, _WORK, "main", NOW)
    first = origin.read(_BRANCH)
    propose_release(workshop, _WORK, "main", NOW + timedelta(days=7))
    assert origin.read(_BRANCH) == first
    head = origin.commit("Main goes on", other="x\n")
    propose_release(workshop, replace(_WORK, rest=()), "main", NOW + timedelta(days=14))
    assert origin.read(f"{_BRANCH}^") == head
    assert [("by cause" in request["body"]) for request in forge.pull_requests] == [False]


def test_what_somebody_committed_to_its_branch_stays(origin, workshop, forge) -> None:
    _begin(origin)
    propose_release(workshop, _WORK, "main", NOW)
    origin.run("fetch", "-q", "origin")
    origin.run("checkout", "-q", "--detach", f"origin/{_BRANCH}")
    theirs = origin.commit("Mend the rest", branch=_BRANCH, mended="x\n")
    propose_release(workshop, replace(_WORK, files={"models/a.py": b"newer\n"}), "main", NOW)
    assert origin.read(_BRANCH) == theirs


def test_where_nothing_merges_there_is_no_pull_request(origin, workshop, forge) -> None:
    _begin(origin)
    assert propose_release(workshop, replace(_WORK, files={}), "main", NOW) is None
    assert forge.pull_requests == []
