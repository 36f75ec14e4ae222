"""200 signed webhooks a second against a service, each of a branch of its own: all accepted, each handled once.

python -m tools.webhook_load [seconds]      # on SQLite, then on PostgreSQL; default: 60
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import sys
import tempfile
import time
from pathlib import Path

from sqlalchemy import func, select

from patchgen_service.cli.serving import open_site
from patchgen_service.database.tables import Repository, Run, WebhookDelivery
from patchgen_service.settings import ServiceSettings
from patchgen_service.web.site import Site
from tools.postgresql import PostgresServer
from tools.service_process import ServiceProcess

SECRET = "whisper"
PATH = "/hooks/1"
A_SECOND, CONNECTIONS = 200, 100


def delivery(number: int, message: str = "Change") -> tuple[dict[str, str], bytes]:
    """The headers and the body of a push, as GitHub sends it."""
    body = json.dumps(
        {
            "ref": f"refs/heads/b{number}",
            "before": f"{number:040x}",
            "after": f"{number + 1:040x}",
            "deleted": False,
            "repository": {"full_name": "acme/models"},
            "pusher": {"name": "ada"},
            "sender": {"login": "ada"},
            "head_commit": {"id": f"{number + 1:040x}", "message": message, "author": {"name": "Ada"}},
        }
    ).encode()
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {"x-github-event": "push", "x-github-delivery": f"delivery-{number}", "content-type": "application/json"}
    return {**headers, "x-hub-signature-256": f"sha256={signature}"}, body


async def flood(url: str, seconds: int) -> tuple[list[int], list[float]]:
    """Send them evenly; the statuses of the answers, and how long each took since it was due.

    Over connections that stay open, and in few words: a client that does more is slower than the service.
    """
    statuses: list[int] = []
    waits: list[float] = []
    begin, numbers = time.perf_counter(), iter(range(seconds * A_SECOND))

    async def send_in_turn() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        for number in numbers:
            headers, body = delivery(number)
            fields = {"host": "127.0.0.1", "content-length": str(len(body)), **headers}
            lines = [f"POST {PATH} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
            due = begin + number / A_SECOND
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            writer.write("\r\n".join(lines).encode() + body)
            answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            await reader.readexactly(int(answer.partition("content-length: ")[2].partition("\r")[0]))
            waits.append(time.perf_counter() - due)
            statuses.append(int(answer.split()[1]))
        writer.close()

    await asyncio.gather(*(send_in_turn() for _ in range(CONNECTIONS)))
    return statuses, sorted(waits)


def wait_until_handled(site: Site) -> int:
    """Wait until no delivery waits any more; returns how many runs there are."""
    while True:
        with site.readings() as session:
            if not session.scalar(select(func.count()).where(WebhookDelivery.handled.is_(None))):
                return session.scalar(select(func.count()).select_from(Run)) or 0
        time.sleep(1)


def make_service(folder: Path, database: str = "") -> tuple[Site, ServiceProcess]:
    """A service with a repository that takes webhooks, and whose runs nobody carries out."""
    environment = {"PATCHGEN_WORKERS": "0", "PATCHGEN_INDEX_URL": "http://127.0.0.1:9", "PATCHGEN_DATABASE": database}
    site = open_site(ServiceSettings(folder, database=database))
    secret, now = site.secrets.encrypt(SECRET), site.clock()
    values = {"url": str(folder), "forge": "github", "webhook_secret": secret, "branches": ["*"], "created": now}
    with site.transactions() as session:
        session.add(Repository(name="acme/models", **values))
    return site, ServiceProcess(folder, environment)


def check(folder: Path, database: str, seconds: int) -> bool:
    """Flood a new service on a database; whether each delivery was accepted, and handled once."""
    site, service = make_service(folder, database)
    with service:
        begin, processor = time.perf_counter(), service.processor_seconds
        statuses, waits = asyncio.run(flood(service.url, seconds))
        flooded = time.perf_counter() - begin
        accepted = statuses.count(202)
        print(f"{'PostgreSQL' if database else 'SQLite'}: {accepted} of {len(statuses)} accepted in {flooded:.1f} s")
        slow = waits[int(len(waits) * 0.99)]
        print(f"answered in {waits[len(waits) // 2]:.3f} s (median), {slow:.3f} s (99 %)", flush=True)
        runs = wait_until_handled(site)
        handled = time.perf_counter() - begin
        spent = (service.processor_seconds - processor) / len(statuses)
    print(f"{runs} runs begun; the last {handled:.1f} s after the first delivery")
    print(f"{spent * 1000:.2f} ms of processor time for each delivery", flush=True)
    return accepted == len(statuses) == runs


def main() -> int:
    """Flood a service on both kinds of database; returns 1 where one lost a delivery, or handled one twice."""
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    with tempfile.TemporaryDirectory() as name, PostgresServer() as server:
        databases = {"sqlite": "", "postgresql": server.make_database("flooded")}
        checks = [check(Path(name) / kind, database, seconds) for kind, database in databases.items()]
    return int(not all(checks))


if __name__ == "__main__":
    sys.exit(main())
