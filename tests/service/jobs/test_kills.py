"""A process that is killed at any moment: the next one of its name finishes its runs, each once and whole."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.service.isolation.test_limits import processes_with
from tools.postgresql import PostgresServer
from tools.service_kills import kill_at_random


@pytest.mark.slow
def test_no_run_and_no_result_is_lost_by_kills(tmp_path: Path) -> None:
    outcome = kill_at_random(tmp_path, f"sqlite:///{tmp_path / 'service.sqlite'}", kills=3, seed=3, longest=1.5)
    assert outcome.problems == ()
    assert outcome.statuses == {"drifted": 3}
    time.sleep(0.2)
    assert processes_with(str(tmp_path / "service" / "work")) == []


@pytest.mark.slow
def test_nor_by_kills_of_the_database_server(tmp_path: Path) -> None:
    with PostgresServer() as server:
        outcome = kill_at_random(tmp_path, server.make_database("kills"), 3, seed=4, longest=1.5, server=server)
    assert outcome.problems == ()
    assert outcome.statuses == {"drifted": 3}
