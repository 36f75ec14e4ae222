"""Webhooks: believed when signed, stored once, answered at once, and refused politely when they are too large.

What they ask for is done by the background work, which has its tests elsewhere; here it is done by hand.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from cryptography.fernet import Fernet
from service_samples import NOW
from service_team import Team
from sqlalchemy import select
from web_visitors import Visitor

from patchgen_service.database.tables import Repository, Run
from patchgen_service.forges.delivery import Refused
from patchgen_service.forges.webhooks import LARGEST
from patchgen_service.jobs.deliveries import handle_deliveries
from patchgen_service.secrets import SecretBox
from patchgen_service.web.inbox import Webhook, take_webhooks
from patchgen_service.web.site import Site

SECRET = "whisper"


@pytest.fixture
def hooked(sqlite_team: Team, site: Site) -> Visitor:
    """A forge whose webhooks the repository takes."""
    with sqlite_team.transactions() as session:
        repository = sqlite_team.repository(session)
        repository.webhook_secret, repository.forge = site.secrets.encrypt(SECRET), "github"
        repository.branches = ["main", "release/*"]
    return Visitor(site)


def push(visitor: Visitor, number: int, branch: str = "main", secret: str = SECRET, name: str = "") -> httpx.Response:
    """Deliver a push as GitHub does."""
    body = json.dumps(
        {
            "ref": f"refs/heads/{branch}",
            "before": f"{number - 1:040x}",
            "after": f"{number:040x}",
            "deleted": False,
            "repository": {"full_name": "acme/models"},
            "pusher": {"name": "ada"},
            "sender": {"login": "ada"},
            "head_commit": {"id": f"{number:040x}", "message": "Change", "author": {"name": "Ada"}},
        }
    ).encode()
    headers = {
        "x-github-event": "push",
        "x-github-delivery": name or f"delivery-{number}",
        "x-hub-signature-256": "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest(),
        "content-type": "application/json",
    }
    return visitor.post("/hooks/1", content=body, headers=headers)  # type: ignore[return-value]


def shas(team: Team) -> list[str]:
    with team.transactions() as session:
        handle_deliveries(session, "", NOW, 100)
        return [run.sha for run in session.scalars(select(Run).order_by(Run.number))]


def test_a_signed_push_begins_a_run_once(sqlite_team: Team, hooked: Visitor) -> None:
    answers = [push(hooked, 7), push(hooked, 7)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0].json() == answers[1].json() == {"delivery": "delivery-7"}
    assert shas(sqlite_team) == [f"{7:040x}"]
    assert push(hooked, 7).status_code == 202
    assert shas(sqlite_team) == [f"{7:040x}"]


def test_a_replay_under_another_name_changes_nothing(sqlite_team: Team, hooked: Visitor) -> None:
    """The signature is of the body alone: whoever has seen one can send it again as another delivery."""
    for number, name in ((7, ""), (8, ""), (8, "again"), (7, "once more"), (8, "and again")):
        assert push(hooked, number, name=name).status_code == 202
        shas(sqlite_team)
    with sqlite_team.transactions() as session:
        runs = [(run.sha, run.status) for run in session.scalars(select(Run).order_by(Run.number))]
    late = (f"{7:040x}", "superseded")
    assert runs == [late, (f"{8:040x}", "pending"), late]


def test_deliveries_that_come_at_once_are_all_stored(sqlite_team: Team, hooked: Visitor) -> None:
    with hooked, ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda number: push(hooked, number, f"release/{number}"), range(1, 41)))
    assert {answer.status_code for answer in answers} == {202}
    assert sorted(shas(sqlite_team)) == [f"{number:040x}" for number in range(1, 41)]


def test_a_branch_that_is_not_run_begins_nothing(sqlite_team: Team, hooked: Visitor) -> None:
    answer = push(hooked, 7, "scratch")
    assert answer.status_code == 202
    assert "'scratch' is not run" in answer.json()["detail"]
    assert shas(sqlite_team) == []


def test_a_wrong_signature_is_refused_and_guessing_ends(sqlite_team: Team, hooked: Visitor) -> None:
    answers = [push(hooked, number, secret="guess").status_code for number in range(61)]
    assert answers == [401] * 60 + [429]
    assert shas(sqlite_team) == []


def test_a_secret_that_cannot_be_read_keeps_back_no_other_repository(
    sqlite_team: Team, hooked: Visitor, site: Site, make_repository: Callable[..., Repository]
) -> None:
    """As after a backup was restored without the key; webhooks that come at once are judged together."""
    with sqlite_team.transactions() as session:
        stranger = SecretBox(Fernet.generate_key().decode())
        make_repository(session, "acme/other", webhook_secret=stranger.encrypt(SECRET))
    headers = {"x-github-event": "ping", "x-hub-signature-256": "sha256="}
    first, second = take_webhooks(site, [Webhook(2, headers, b"{}"), Webhook(1, headers, b"{}")])
    assert isinstance(first, Refused)
    assert isinstance(second, Refused)
    assert (first.status, second.status) == (503, 401)
    assert hooked.post("/hooks/2", content=b"{}", headers=headers).status_code == 503


def test_a_delivery_that_is_too_large_is_not_read(hooked: Visitor) -> None:
    read = []

    def parts() -> Iterator[bytes]:
        for _ in range(2 * LARGEST // 65536):
            read.append(1)
            yield bytes(65536)

    told = hooked.post("/hooks/1", content=b"", headers={"content-length": str(LARGEST + 1)})
    assert told.status_code == 413
    assert hooked.post("/hooks/1", content=parts()).status_code == 413


def test_a_repository_that_is_not_there_takes_none(hooked: Visitor) -> None:
    for address in ("/hooks/999", "/hooks/99999999999999999999"):
        assert hooked.post(address, content=b"{}", headers={"x-github-event": "push"}).status_code == 401
