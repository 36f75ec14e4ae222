"""Jobs that wait while the database cannot be reached, and then go on."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest
from sqlalchemy import create_engine, select

from patchgen_service.database.engine import make_readings
from patchgen_service.isolation.probe import Isolation
from patchgen_service.jobs.context import JobContext
from patchgen_service.secrets import open_secrets
from patchgen_service.settings import ServiceSettings
from patchgen_service.store import Store


def test_a_job_waits_until_a_connection_is_free(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'busy.sqlite'}", pool_size=1, max_overflow=0, pool_timeout=0.05)
    secrets = open_secrets(tmp_path, {}, True)
    context = JobContext(ServiceSettings(tmp_path), make_readings(engine), Store(tmp_path), secrets, Isolation("none"))
    taken = engine.connect()
    threading.Timer(0.2, taken.close).start()
    assert context.change(lambda session: session.scalar(select(5))) == 5
    assert (logging.WARNING, "the database cannot be reached; trying again in 0.1 seconds") in [
        event[1:] for event in caplog.record_tuples
    ]
    engine.dispose()
