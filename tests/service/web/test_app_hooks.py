"""Webhooks of the app on GitHub, which come to one address for all repositories."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from service_samples import NOW
from service_team import Team
from sqlalchemy import select
from web_visitors import Visitor, add_member, make_site, red_run

from patchgen_service.accounts.people import find_person
from patchgen_service.database.tables import Approval, Run
from patchgen_service.jobs.deliveries import handle_deliveries
from patchgen_service.records.approvals import digest_regenerated
from patchgen_service.settings import GithubAppSettings
from patchgen_service.web.site import Site

_SECRET = "whisper"
_PAYLOADS = Path(__file__).parents[1] / "forges" / "payloads"


@pytest.fixture
def visitor(sqlite_team: Team, tmp_path: Path) -> Visitor:
    """GitHub, before a service that is an app there."""
    with sqlite_team.transactions() as session:
        repository = sqlite_team.repository(session)
        repository.forge, repository.name = "github", "Codertocat/Hello-World"
    site = make_site(sqlite_team.transactions, sqlite_team.store, tmp_path)
    app = GithubAppSettings("4711", "app.pem", _SECRET)
    return Visitor(replace(site, settings=replace(site.settings, github_app=app)))


def _deliver(
    visitor: Visitor, name: str, secret: str = _SECRET, address: str = "/hooks/github-app", **changes: object
) -> httpx.Response:
    """A recorded delivery, with changes."""
    payload = json.loads((_PAYLOADS / f"github-{name}.json").read_text())
    for path, value in changes.items():
        place = payload
        *parents, last = path.split("__")
        for parent in parents:
            place = place[parent]
        place[last] = value
    body = json.dumps(payload).encode()
    headers = {
        "x-github-event": "check_run" if name.startswith("check-run") else "push",
        "x-github-delivery": f"{name}-1",
        "x-hub-signature-256": "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest(),
        "content-type": "application/json",
    }
    answer: httpx.Response = visitor.post(address, content=body, headers=headers)  # type: ignore[assignment]
    return answer


def _handle(team: Team) -> None:
    with team.transactions() as session:
        handle_deliveries(session, "", NOW, 10)


def test_a_press_of_the_button_is_an_approval_where_github_tells_of_it(sqlite_team: Team, visitor: Visitor) -> None:
    """Elsewhere the secret of the repository signs, and whoever knows that could press it in another's name."""
    add_member(sqlite_team, "ada", "approver")
    run = red_run(sqlite_team)
    with sqlite_team.transactions() as session:
        find_person(session, "ada").identities = {"github": "42"}
        digest = digest_regenerated(session, run)
    changes = {
        "requested_action__identifier": f"approve-{digest[:12]}",
        "check_run__external_id": run,
        "sender__id": 42,
        "repository__full_name": "Codertocat/Hello-World",
    }
    with sqlite_team.transactions() as session:
        site: Site = visitor.app.state.site  # type: ignore[attr-defined]
        sqlite_team.repository(session).webhook_secret = site.secrets.encrypt("known")
    forged = _deliver(visitor, "check-run-requested_action", "known", "/hooks/1", **changes)
    assert "only at the address of the app" in forged.json()["detail"]
    _handle(sqlite_team)
    with sqlite_team.transactions() as session:
        assert session.scalars(select(Approval)).all() == []
    for _ in range(2):
        assert _deliver(visitor, "check-run-requested_action", **changes).status_code == 202
        _handle(sqlite_team)
    with sqlite_team.transactions() as session:
        (approval,) = session.scalars(select(Approval)).all()
        assert (approval.run_id, approval.digest, approval.state) == (run, digest, "pending")


def test_a_push_begins_a_run_of_the_repository_that_it_names(sqlite_team: Team, visitor: Visitor) -> None:
    with sqlite_team.transactions() as session:
        sqlite_team.repository(session).branches = ["master"]
    assert _deliver(visitor, "push").status_code == 202
    other = _deliver(visitor, "push", repository__full_name="mallory/Hello-World")
    assert (other.status_code, other.json()["detail"]) == (
        202,
        "The service does not have the repository 'mallory/Hello-World'.",
    )
    _handle(sqlite_team)
    with sqlite_team.transactions() as session:
        assert [run.branch for run in session.scalars(select(Run))] == ["master"]


def test_a_repository_on_another_github_is_not_meant(sqlite_team: Team, visitor: Visitor) -> None:
    with sqlite_team.transactions() as session:
        repository = sqlite_team.repository(session)
        repository.forge_url, repository.branches = "https://github.example.com", ["master"]
    assert "does not have" in _deliver(visitor, "push").json()["detail"]


def test_what_the_app_has_not_signed_is_refused(sqlite_team: Team, visitor: Visitor, tmp_path: Path) -> None:
    assert _deliver(visitor, "push", secret="guess").status_code == 401
    without_app = Visitor(make_site(sqlite_team.transactions, sqlite_team.store, tmp_path))
    assert _deliver(without_app, "push", secret="").status_code == 401
