"""What pages, the API and webhooks say while the database cannot be reached, and what the log does."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from web_visitors import Visitor, make_site

from patchgen_service.database.engine import make_readings, open_database
from patchgen_service.store import Store


@pytest.mark.parametrize(
    ("method", "address", "path"),
    [
        ("GET", "/runs/1%0A2?token=pgtok_secret", "/runs/1%0A2"),
        ("GET", "/healthz", "/healthz"),
        ("GET", "/api/v1/repositories", "/api/v1/repositories"),
        ("POST", "/hooks/1", "/hooks/1"),
    ],
)
def test_a_request_that_the_database_does_not_answer_is_one_event_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str, address: str, path: str
) -> None:
    engine = open_database(f"sqlite:///{tmp_path / 'gone' / 'service.sqlite'}")
    answer = Visitor(make_site(make_readings(engine), Store(tmp_path), tmp_path)).request(method, address)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
    event = (logging.ERROR, f"{method} {path} is answered 503: unable to open database file")
    assert [(level, text) for name, level, text in caplog.record_tuples if name.startswith("patchgen")] == [event]


@pytest.mark.parametrize("address", ["/", "/api/v1/repositories"])
def test_a_request_that_gets_no_connection_to_the_database_may_be_made_again(tmp_path: Path, address: str) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'busy.sqlite'}", pool_size=1, max_overflow=0, pool_timeout=0.05)
    with engine.connect():
        answer = Visitor(make_site(make_readings(engine), Store(tmp_path), tmp_path)).get(address)
    assert answer.status_code == 503
    engine.dispose()
