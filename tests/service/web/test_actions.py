"""Signing in, and what buttons do: for whom, and not for others."""

from __future__ import annotations

import re

import pytest
from service_team import Team
from sqlalchemy import select
from web_visitors import PASSWORD, SHA, Visitor, add_member, red_run, words_of

from patchgen_service.database.tables import Approval, AuditEntry, Run, WebSession
from patchgen_service.web.forms import FORM_COOKIE, local_path


@pytest.fixture
def approver(sqlite_team: Team, visitor: Visitor) -> Visitor:
    """Somebody who may approve, signed in."""
    add_member(sqlite_team, "grace", "approver")
    visitor.enter("grace")
    return visitor


def approvals(team: Team) -> list[tuple[str, str]]:
    """State and digest of all approvals."""
    with team.transactions() as session:
        return [(approval.state, approval.digest) for approval in session.scalars(select(Approval))]


def shown_digest(page: str) -> str:
    """The digest that a page offers to approve."""
    match = re.search(r'name="digest" value="(\w+)"', page)
    assert match is not None
    return match[1]


def test_a_name_and_a_password_that_go_together_sign_in(sqlite_team: Team, visitor: Visitor) -> None:
    add_member(sqlite_team, "ada", password=PASSWORD)
    assert "do not match" in visitor.sign_in("ada", "wrong password!")
    assert "do not match" in visitor.sign_in("nobody")
    assert "ada" in visitor.sign_in("ada")
    cookie = next(cookie for cookie in visitor.cookies.jar if cookie.name == "patchgen_session")
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "lax"
    with sqlite_team.transactions() as session:
        assert cookie.value not in session.scalars(select(WebSession.digest)).all()
        assert len(session.scalars(select(AuditEntry).filter_by(action="person.sign_in")).all()) == 1
    visitor.submit("/", "/sign-out")
    assert "Sign in" in visitor.get("/").text


def test_passwords_cannot_be_tried_without_end(sqlite_team: Team, visitor: Visitor) -> None:
    add_member(sqlite_team, "ada", password=PASSWORD)
    answers = [visitor.submit("/sign-in", "/sign-in", name="ada", password=f"wrong {n}") for n in range(9)]
    assert [answer.status_code for answer in answers] == [403] * 8 + [429]
    assert visitor.submit("/sign-in", "/sign-in", name="ada", password=PASSWORD).status_code == 429


def test_long_names_are_not_remembered_in_whole(visitor: Visitor) -> None:
    """Else whoever tries some fills the memory: of such names, those that begin alike count as one."""
    names = [f"{'x' * 200}{number}" for number in range(9)]
    answers = [visitor.submit("/sign-in", "/sign-in", name=name, password="guess") for name in names]
    assert [answer.status_code for answer in answers] == [403] * 8 + [429]


def test_a_link_from_the_forge_does_not_make_forms_of_other_tabs_too_old(visitor: Visitor) -> None:
    """A cookie that is left out where another site leads here would be set anew then."""
    visitor.get("/sign-in")
    cookie = next(cookie for cookie in visitor.cookies.jar if cookie.name == FORM_COOKIE)
    assert cookie.get_nonstandard_attr("SameSite") == "lax"


@pytest.mark.parametrize(
    "address", ["https://evil.example/x", "//evil.example", "/\\evil.example", "javascript:x", ""]
)
def test_signing_in_leads_to_no_other_site(address: str) -> None:
    assert not local_path(address).startswith(("//", "/\\"))
    assert "evil" not in local_path(address).partition("/")[0]
    assert local_path("/runs/1?x=2") == "/runs/1?x=2"


def test_a_form_that_no_page_showed_is_refused(sqlite_team: Team, approver: Visitor) -> None:
    run = red_run(sqlite_team)
    digest = shown_digest(approver.get(f"/runs/{run}").text)
    assert approver.post(f"/runs/{run}/approve", data={"digest": digest}).status_code == 403
    forged = {"digest": digest, "csrf": "0" * 64}
    assert approver.post(f"/runs/{run}/approve", data=forged).status_code == 403
    headers = {"sec-fetch-site": "cross-site"}
    assert approver.post(f"/runs/{run}/approve", data=forged, headers=headers).status_code == 403
    assert approvals(sqlite_team) == []


def test_approving_is_for_the_files_that_were_shown(sqlite_team: Team, approver: Visitor) -> None:
    run = red_run(sqlite_team)
    page = approver.get(f"/runs/{run}").text
    digest = shown_digest(page)
    assert approver.submit(f"/runs/{run}", f"/runs/{run}/approve", digest="0" * 64).status_code == 409
    assert approvals(sqlite_team) == []
    answer = approver.submit(f"/runs/{run}", f"/runs/{run}/approve", digest=digest)
    assert "Approved by grace" in words_of(answer.text)
    assert approvals(sqlite_team) == [("pending", digest)]
    assert 'name="digest"' not in answer.text


def test_who_only_looks_cannot_approve_or_cancel(sqlite_team: Team, visitor: Visitor) -> None:
    add_member(sqlite_team, "edsger", "viewer")
    visitor.enter("edsger")
    run = red_run(sqlite_team)
    assert 'name="digest"' not in visitor.get(f"/runs/{run}").text
    for action in ("approve", "cancel", "again"):
        assert visitor.submit(f"/runs/{run}", f"/runs/{run}/{action}", digest="0" * 64).status_code == 403
    assert approvals(sqlite_team) == []


def test_a_run_is_cancelled_and_begun_again(sqlite_team: Team, approver: Visitor) -> None:
    run = sqlite_team.begin(SHA)
    sqlite_team.start(run)
    assert "cancelled" in words_of(approver.submit(f"/runs/{run.id}", f"/runs/{run.id}/cancel").text)
    red_run(sqlite_team)
    with sqlite_team.transactions() as session:
        last = session.scalars(select(Run).order_by(Run.number.desc())).first()
        assert last is not None
        before = last.number
    answer = approver.submit(f"/runs/{last.id}", f"/runs/{last.id}/again")
    assert "Waiting for a worker" in words_of(answer.text)
    with sqlite_team.transactions() as session:
        runs = session.scalars(select(Run).where(Run.number > before)).all()
        assert [(run.sha, run.status) for run in runs] == [(last.sha, "pending")]


def test_the_patch_is_one_that_git_applies(sqlite_team: Team, approver: Visitor) -> None:
    run = red_run(sqlite_team)
    text = approver.get(f"/runs/{run}/changes.patch").text
    assert text.startswith("--- a/models/toy.py\n+++ b/models/toy.py\n@@ -1,2 +1,2 @@\n")
    assert text.endswith("+    return x * 3\n")


def test_a_repository_is_removed_by_who_types_its_name(sqlite_team: Team, visitor: Visitor) -> None:
    run, action = red_run(sqlite_team), "/settings/repositories/1/remove"
    add_member(sqlite_team, "edsger", "admin")
    visitor.enter("edsger")
    assert action not in visitor.get("/settings").text
    assert visitor.submit("/settings", action, typed="acme/models").status_code == 403
    add_member(sqlite_team, "root", is_admin=True)
    visitor.enter("root")
    answer = visitor.submit("/settings", action, typed="acme/model")
    assert (answer.status_code, "not the name of 'acme/models'" in words_of(answer.text)) == (400, True)
    assert visitor.get(f"/runs/{run}").status_code == 200
    answer = visitor.submit("/settings", action, typed="acme/models")
    assert (answer.status_code, "acme/models" in words_of(answer.text)) == (200, False)
    assert visitor.get(f"/runs/{run}").status_code == 404
    assert "repository.remove" in visitor.get("/audit").text
    assert visitor.submit("/settings", action, typed="acme/models").status_code == 404


def test_a_token_is_shown_once(sqlite_team: Team, approver: Visitor) -> None:
    fields = {"name": "CI", "scope-push": "1"}
    page = approver.submit("/settings", "/settings/tokens", **fields).text
    secret = re.search(r"pgtok_[\w-]+", page)
    assert secret is not None
    assert secret[0] not in approver.get("/settings").text
