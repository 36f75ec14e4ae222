"""A flood of webhooks is accepted, and each is handled once; a connection that was at rest still works."""

from __future__ import annotations

import asyncio
import http.client
import time
from pathlib import Path

from tools.service_process import ServiceProcess
from tools.webhook_load import A_SECOND, flood, make_service, wait_until_handled

SERVERS_USUAL_REST = 5.0
"""Seconds for which servers keep a connection that nothing comes over; some clients use it once more just then."""


def test_accepted_deliveries_outlive_the_service_and_each_is_handled_once(tmp_path: Path) -> None:
    site, service = make_service(tmp_path)
    with service:
        statuses, _ = asyncio.run(flood(service.url, 1))
        assert service.process is not None
        service.process.kill()
    assert statuses == [202] * A_SECOND
    with service:
        assert wait_until_handled(site) == A_SECOND


def test_connection_at_rest_is_not_ended_by_the_service(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path) as service:
        connection = http.client.HTTPConnection("127.0.0.1", int(service.url.rpartition(":")[2]))
        for rest in (SERVERS_USUAL_REST + 0.5, 0):
            connection.request("GET", "/healthz")
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, b'{"status":"ok"}')
            connection.auto_open = 0
            time.sleep(rest)
