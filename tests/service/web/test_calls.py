"""The API: what tokens may do, and a CI job that hands its own results in; on each kind of database."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

import pytest
from service_samples import NOW, make_result
from service_team import Team
from sqlalchemy import select
from web_visitors import SHA, Visitor, add_member, drifted, make_site, red_run

from patchgen_core.checks.result import pack
from patchgen_service.accounts.people import find_person
from patchgen_service.accounts.tokens import add_token
from patchgen_service.database.tables import Repository, Result, Run
from patchgen_service.web.site import NoWork


@pytest.fixture
def api(team: Team, tmp_path: Path) -> Visitor:
    """A caller without a token."""
    return Visitor(make_site(team.transactions, team.store, tmp_path))


def bearer(team: Team, *scopes: str, role: str = "approver") -> dict[str, str]:
    """The headers of a call with a new token."""
    name = "-".join(scopes)
    add_member(team, name, role)
    with team.transactions() as session:
        return {"authorization": f"Bearer {add_token(session, find_person(session, name), 'CI', scopes, NOW)}"}


def test_what_is_not_public_is_read_with_a_token_alone(team: Team, api: Visitor) -> None:
    run = red_run(team)
    addresses = ("/api/v1/repositories/1", f"/api/v1/runs/{run}", f"/api/v1/runs/{run}/results")
    assert [api.get(address).status_code for address in addresses] == [404] * 3
    headers = bearer(team, "read")
    assert [api.get(address, headers=headers).status_code for address in addresses] == [200] * 3
    assert api.get(addresses[1], headers=headers).json()["line"]["counts"]["bad"] == 1
    wrong = {"authorization": "Bearer pgtok_wrong"}
    assert api.get("/api/v1/repositories", headers=wrong).status_code == 401


def test_a_token_does_what_its_scopes_say_and_no_more(team: Team, api: Visitor) -> None:
    run = red_run(team)
    headers = bearer(team, "read")
    new = {"branch": "main", "sha": SHA}
    assert api.post("/api/v1/repositories/1/runs", json=new, headers=headers).status_code == 403
    assert api.post(f"/api/v1/runs/{run}/cancel", headers=headers).status_code == 403
    assert api.post(f"/api/v1/runs/{run}/approve", json={"digest": "0" * 64}, headers=headers).status_code == 403
    repository = {"name": "acme/other", "url": "https://git.example/other.git"}
    assert api.post("/api/v1/repositories", json=repository, headers=headers).status_code == 403


def test_a_ci_job_hands_its_results_in(team: Team, api: Visitor) -> None:
    headers = bearer(team, "push")
    new = {"repository": "acme/models", "branch": "main", "sha": SHA, "push": True, "delivery": "job-1"}
    begun = api.post("/api/v1/runs", json=new, headers=headers).json()
    own = {"authorization": f"Bearer {begun['token']}"}
    results = [pack(drifted()), pack(make_result("models.other", "contract"))]
    address = f"/api/v1/runs/{begun['id']}"
    pushed = {"items": 2, "environment": {"python": "3.12.1", "packages": {"torch": "2.9"}}, "results": results}
    assert api.post(f"{address}/results", json=pushed, headers=own).json() == {"new": 2, "status": "running"}
    assert api.post(f"{address}/results", json=pushed, headers=own).json()["new"] == 0
    content = base64.b64encode(b"def forward(x): ...\n").decode()
    file = {"kind": "generated", "name": "models/toy.py", "content": content}
    assert api.post(f"{address}/files", json=file, headers=own).status_code == 201
    assert api.post(f"{address}/end", json={}, headers=own).json()["status"] == "drifted"
    assert api.post(f"{address}/results", json=pushed, headers=own).status_code == 401


def test_what_a_ci_job_hands_in_is_compared_and_told_of(team: Team, tmp_path: Path) -> None:
    """At its begin, with its first red result, and at its end."""
    told: list[str] = []

    class Work(NoWork):
        def tell(self, run_id: str) -> None:
            told.append(run_id)

    api = Visitor(make_site(team.transactions, team.store, tmp_path, work=Work()))
    baseline = team.begin("b" * 40)
    team.start(baseline)
    team.add(baseline, drifted("models.known"), make_result("models.toy"))
    team.end(baseline)
    new = {"branch": "main", "sha": SHA, "push": True}
    begun = api.post("/api/v1/repositories/1/runs", json=new, headers=bearer(team, "push")).json()
    own, address = {"authorization": f"Bearer {begun['token']}"}, f"/api/v1/runs/{begun['id']}"
    counts = []
    for result in (make_result("models.other"), drifted("models.known"), drifted("models.toy")):
        counts.append(len(told))
        api.post(f"{address}/results", json={"results": [pack(result)]}, headers=own)
    counts.append(len(told))
    api.post(f"{address}/end", json={}, headers=own)
    assert ([*counts, len(told)], set(told)) == ([1, 1, 2, 2, 3], {begun["id"]})
    with team.transactions() as session:
        run = session.get_one(Run, begun["id"])
        changes = {row.config: row.change for row in session.scalars(select(Result).where(Result.run_id == run.id))}
        assert (run.previous_id, changes["models.known"], changes["models.toy"]) == (baseline.id, "known", "new")


def test_a_ci_job_hands_nothing_into_runs_of_the_service(team: Team, api: Visitor) -> None:
    """Else whoever may push could say of a commit that it is green which the service is still running."""
    run = team.begin("c" * 40, delivery="of-the-forge")
    team.start(run)
    headers, address = bearer(team, "push", "run", role="admin"), f"/api/v1/runs/{run.id}"
    posts = {"results": {"results": []}, "files": {"kind": "log", "name": "a", "content": ""}, "end": {}}
    for what, content in posts.items():
        answer = api.post(f"{address}/{what}", json=content, headers=headers)
        assert (answer.status_code, "The service carries run 1 out" in answer.text) == (403, True), what
    new = {"branch": "main", "sha": run.sha, "delivery": "of-the-forge", "push": True}
    answer = api.post("/api/v1/repositories/1/runs", json=new, headers=headers)
    assert (answer.status_code, "which the service carries out" in answer.text) == (409, True)
    assert (team.read(run).status, team.read(run).token) == ("running", "")


def test_the_service_carries_no_run_of_a_ci_job_out(team: Team, api: Visitor) -> None:
    headers = bearer(team, "push", "run")
    new = {"branch": "main", "sha": SHA, "delivery": "job-1"}
    assert api.post("/api/v1/repositories/1/runs", json={**new, "push": True}, headers=headers).status_code == 201
    answer = api.post("/api/v1/repositories/1/runs", json=new, headers=headers)
    assert (answer.status_code, "which takes the results of a CI job" in answer.text) == (409, True)


def test_a_repository_is_added_with_all_that_its_runs_need(team: Team, api: Visitor) -> None:
    add_member(team, "root", is_admin=True)
    with team.transactions() as session:
        token = add_token(session, find_person(session, "root"), "CI", ["admin"], NOW)
    headers = {"authorization": f"Bearer {token}"}
    new = {"name": "acme/new", "url": "https://git.example/new.git", "default_branch": "trunk"}
    more = {"extras": ["torch"], "constraints": "c.txt", "owners": {".": "ada@example.com"}, "schedule": "0 4 * * *"}
    assert api.post("/api/v1/repositories", json={**new, **more}, headers=headers).json()["branches"] == ["trunk"]
    with team.transactions() as session:
        row = session.scalars(select(Repository).filter_by(name="acme/new")).one()
        assert {name: getattr(row, name) for name in more} == more
    other = {**new, "name": "acme/other", "schedule": "daily"}
    answer = api.post("/api/v1/repositories", json=other, headers=headers)
    assert (answer.status_code, "'daily' is not a schedule" in answer.json()["detail"]) == (409, True)


def test_an_administrator_of_the_service_alone_removes_a_repository(team: Team, tmp_path: Path) -> None:
    stopped: list[str] = []

    class Work(NoWork):
        def forget_runs(self, runs: Sequence[str]) -> None:
            stopped.extend(runs)

    api = Visitor(make_site(team.transactions, team.store, tmp_path, work=Work()))
    run = team.begin("c" * 40)
    assert api.delete("/api/v1/repositories/1").status_code == 401
    assert api.delete("/api/v1/repositories/1", headers=bearer(team, "admin", role="admin")).status_code == 403
    add_member(team, "root", is_admin=True)
    with team.transactions() as session:
        token = add_token(session, find_person(session, "root"), "CI", ["admin"], NOW)
    headers = {"authorization": f"Bearer {token}"}
    assert api.delete("/api/v1/repositories/1", headers=headers).status_code == 204
    assert api.delete("/api/v1/repositories/1", headers=headers).status_code == 404
    assert stopped == [run.id]


def test_the_token_of_a_run_does_nothing_else(team: Team, api: Visitor) -> None:
    other = red_run(team)
    begun = api.post(
        "/api/v1/repositories/1/runs", json={"branch": "x", "sha": SHA, "push": True}, headers=bearer(team, "push")
    ).json()
    own = {"authorization": f"Bearer {begun['token']}"}
    assert api.post(f"/api/v1/runs/{other}/results", json={"results": []}, headers=own).status_code == 403
    assert api.get("/api/v1/repositories", headers=own).status_code == 401
    assert api.post(f"/api/v1/runs/{begun['id']}/cancel", headers=own).status_code == 401


@pytest.mark.parametrize("result", [{}, {"config": 1}, {"path": "../../etc/passwd"}, {"status": "splendid"}])
@pytest.mark.mostly_slow(3)
def test_what_is_no_result_is_refused(team: Team, api: Visitor, result: dict[str, object]) -> None:
    headers = bearer(team, "push")
    begun = api.post("/api/v1/repositories/1/runs", json={"branch": "x", "sha": SHA, "push": True}, headers=headers)
    address = f"/api/v1/runs/{begun.json()['id']}/results"
    answer = api.post(address, json={"results": [result]}, headers=headers)
    assert answer.status_code == (200 if result == {} else 422)


def test_the_description_names_every_error(api: Visitor) -> None:
    paths = api.get("/api/v1/openapi.json").json()["paths"]
    for path, operations in paths.items():
        for method, operation in operations.items():
            assert {"401", "403", "404", "422"} <= operation["responses"].keys(), (method, path)


def test_an_address_of_the_api_that_nothing_has_is_answered_as_the_api_does(visitor: Visitor) -> None:
    for address in ("/api/v1/nothing", "/api/v1/runs/%0Ax"):
        answer = visitor.get(address)
        assert (answer.status_code, list(answer.json())) == (404, ["detail"])
