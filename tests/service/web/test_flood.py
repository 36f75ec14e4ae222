"""A flood of webhooks is accepted, and each is handled once, as are large ones; a connection at rest still works."""

from __future__ import annotations

import asyncio
import http.client
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.request import urlopen

import pytest
from sqlalchemy import select

from patchgen_service.database.tables import WebhookDelivery
from patchgen_service.forges.payloads import LONGEST_TEXT
from patchgen_service.forges.webhooks import LARGEST
from patchgen_service.web.bodies import LARGEST_CALL
from patchgen_service.web.site import Site
from tools.service_process import ServiceProcess
from tools.webhook_load import A_SECOND, PATH, delivery, flood, make_service, wait_until_handled

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


@pytest.mark.slow
def test_accepted_deliveries_outlive_the_service_and_each_is_handled_once(flooded: Flooded) -> None:
    assert flooded.statuses == [202] * A_SECOND
    assert wait_until_handled(flooded.site) == A_SECOND


@pytest.mark.slow
def test_connection_at_rest_is_not_ended_by_the_service(flooded: Flooded) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", int(flooded.service.url.rpartition(":")[2]))
    for rest in (SERVERS_USUAL_REST + 0.5, 0):
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b'{"status":"ok"}')
        connection.auto_open = 0
        time.sleep(rest)


@pytest.mark.slow
def test_whoever_guesses_behind_a_proxy_locks_nobody_else_out(flooded: Flooded) -> None:
    """The proxy of this machine says whose requests are whose."""
    connection = http.client.HTTPConnection("127.0.0.1", int(flooded.service.url.rpartition(":")[2]))

    def guess(address: str) -> int:
        headers, body = delivery(1)
        headers = {**headers, "x-hub-signature-256": "sha256=", "x-forwarded-for": address}
        connection.request("POST", PATH, body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status

    assert [guess("203.0.113.7") for _ in range(61)] == [401] * 60 + [429]
    assert guess("203.0.113.8") == 401


MIB = 2**20
SOME_MIB = 8.0
"""What the service's memory may differ by without a reason."""


@dataclass(frozen=True)
class Sent:
    """The status of an answer, and what was there until it came: the bytes that were sent, and the most memory."""

    status: int
    bytes: int
    peak_mib: float


def send_in_parts(
    service: ServiceProcess, headers: Mapping[str, str], parts: Iterable[bytes], path: str = PATH
) -> Sent:
    """Send a webhook, or something else, of which the service may refuse the rest before it was sent."""
    sent, peak = 0, 0.0
    with socket.create_connection(("127.0.0.1", int(service.url.rpartition(":")[2])), 60) as connection:
        lines = (f"{name}: {value}" for name, value in {"host": "127.0.0.1", **headers}.items())
        connection.sendall("\r\n".join((f"POST {path} HTTP/1.1", *lines, "", "")).encode())
        try:
            for part in parts:
                connection.sendall(part)
                sent, peak = sent + len(part), max(peak, service.resident_mib)
        except ConnectionError:
            pass  # it answered before, and reads no more
        return Sent(int(connection.recv(MIB).split()[1]), sent, peak)


@pytest.mark.slow
def test_body_that_is_too_large_is_refused_before_it_takes_memory(flooded: Flooded) -> None:
    service = flooded.service
    before = service.resident_mib
    told = send_in_parts(service, {"content-length": str(LARGEST + 1)}, [bytes(MIB)] * (LARGEST // MIB + 1))
    assert (told.status, told.bytes < LARGEST) == (413, True)
    assert told.peak_mib < before + SOME_MIB
    urlopen(f"{service.url}/api/v1/repositories").close()  # the API is made with its first call
    kinds = {"/sign-in": "application/x-www-form-urlencoded", "/api/v1/runs": "application/json"}
    for path, largest in ((PATH, LARGEST), ("/sign-in", MIB), ("/api/v1/runs", LARGEST_CALL)):
        before = service.resident_mib
        headers = {"transfer-encoding": "chunked", "content-type": kinds.get(path, "")}
        part = f"{MIB:x}\r\n".encode() + bytes(MIB) + b"\r\n"
        untold = send_in_parts(service, headers, [part] * (2 * largest // MIB + 50), path)
        assert (untold.status, untold.bytes < largest + 25 * MIB) == (413, True), path
        assert untold.peak_mib < before + largest / MIB + SOME_MIB


@pytest.mark.slow
def test_webhooks_of_25_megabytes_are_handled_once_and_not_kept_whole(flooded: Flooded) -> None:
    service, known = flooded.service, wait_until_handled(flooded.site)
    before = service.resident_mib
    for number in range(1000, 1006):
        headers, body = delivery(number, "x" * 24_999_000)
        parts = [body[start : start + MIB] for start in range(0, len(body), MIB)]
        assert send_in_parts(service, {"content-length": str(len(body)), **headers}, parts).status == 202
    headers, body = delivery(1006)
    assert send_in_parts(service, {"content-length": str(len(body)), **headers}, [body]).status == 202
    assert wait_until_handled(flooded.site) == known + 7
    with flooded.site.readings() as session:
        contents = session.scalars(select(WebhookDelivery.content)).all()
    assert max(len(content["message"]) for content in contents) == LONGEST_TEXT
    assert service.resident_mib < before + 4 * LARGEST / MIB, "less than the six were together"
