"""The API turns away who calls too often, by token and by address, without a look at the database."""

from __future__ import annotations

from dataclasses import replace

import pytest
from service_team import Team
from sqlalchemy import event
from web_visitors import Visitor

from patchgen_service.settings import CallLimits
from patchgen_service.web.rates import Allowance
from patchgen_service.web.site import Site

ADDRESS = "/api/v1/repositories"


def caller(site: Site, limits: CallLimits) -> Visitor:
    return Visitor(replace(site, settings=replace(site.settings, calls=limits)))


def call(api: Visitor, token: str = "") -> int:
    return api.get(ADDRESS, headers={"authorization": f"Bearer {token}"} if token else {}).status_code


def test_a_token_that_calls_too_often_is_turned_away_and_others_are_not(site: Site) -> None:
    api = caller(site, CallLimits(per_token=2, per_address=100))
    assert [call(api, "one") for _ in range(3)] == [401, 401, 429]
    assert (call(api, "other"), call(api)) == (401, 200)


def test_calls_of_an_address_are_limited_whatever_their_tokens(site: Site) -> None:
    api = caller(site, CallLimits(per_token=100, per_address=3))
    assert [call(api, f"guess-{number}") for number in range(4)] == [401, 401, 401, 429]
    assert api.get("/sign-in").status_code == 200, "pages are not of the API"


def test_who_is_turned_away_is_told_for_how_long_and_costs_no_query(sqlite_team: Team, site: Site) -> None:
    api = caller(site, CallLimits(per_token=0, per_address=3))
    assert [call(api) for _ in range(3)] == [200] * 3
    statements: list[str] = []
    with sqlite_team.transactions() as session:
        engine = session.get_bind()

    def count(connection: object, cursor: object, statement: str, *others: object) -> None:
        statements.append(statement)

    event.listen(engine, "before_cursor_execute", count)
    try:
        answer = api.get(ADDRESS)
        assert answer.status_code == 429
        assert 1 <= int(answer.headers["retry-after"]) <= 20
        assert "3 calls a minute of this address" in answer.json()["detail"]
        assert statements == []
        api.get("/")
        assert statements != []
    finally:
        event.remove(engine, "before_cursor_execute", count)


@pytest.mark.parametrize("limits", [CallLimits(0, 0), CallLimits()])
def test_usual_calls_are_answered(site: Site, limits: CallLimits) -> None:
    api = caller(site, limits)
    assert {call(api) for _ in range(30)} == {200}


def test_an_allowance_comes_back_in_the_course_of_a_minute() -> None:
    allowance = Allowance(60)
    for _ in range(60):
        assert allowance.wait("one", 1000.0) == 0
        allowance.take("one", 1000.0)
    assert allowance.wait("one", 1000.0) == 1
    assert allowance.wait("one", 1000.25) == 0.75
    assert allowance.wait("one", 1001.0) == 0
    allowance.take("one", 1001.0)
    assert allowance.wait("one", 1001.0) == 1
    assert allowance.wait("other", 1001.0) == 0
