"""A flood of webhooks is accepted, and each is handled once; a connection that was at rest still works."""

from __future__ import annotations

import asyncio
import http.client
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from patchgen_service.web.site import Site
from tools.service_process import ServiceProcess
from tools.webhook_load import A_SECOND, flood, make_service, wait_until_handled

SERVERS_USUAL_REST = 5.0
"""Seconds for which servers keep a connection that nothing comes over; some clients use it once more just then."""


@dataclass(frozen=True)
class Flooded:
    """A service that was killed after a flood and started again, and what it had answered."""

    site: Site
    service: ServiceProcess
    statuses: list[int]


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flooded]:
    site, service = make_service(tmp_path_factory.mktemp("flooded"))
    with service:
        statuses, _ = asyncio.run(flood(service.url, 1))
        assert service.process is not None
        service.process.kill()
    with service:
        yield Flooded(site, service, statuses)


def test_accepted_deliveries_outlive_the_service_and_each_is_handled_once(flooded: Flooded) -> None:
    assert flooded.statuses == [202] * A_SECOND
    assert wait_until_handled(flooded.site) == A_SECOND


def test_connection_at_rest_is_not_ended_by_the_service(flooded: Flooded) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", int(flooded.service.url.rpartition(":")[2]))
    for rest in (SERVERS_USUAL_REST + 0.5, 0):
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b'{"status":"ok"}')
        connection.auto_open = 0
        time.sleep(rest)
