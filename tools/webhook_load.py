"""200 signed webhooks a second against a service, each of a branch of its own: all accepted, each handled once.

python -m tools.webhook_load [seconds]      # default: 60
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

import httpx
from sqlalchemy import func, select

from patchgen_service.cli.serving import open_site
from patchgen_service.database.tables import Repository, Run
from patchgen_service.settings import ServiceSettings
from tools.service_process import ServiceProcess

SECRET = "whisper"
A_SECOND = 200


def delivery(number: int) -> tuple[dict[str, str], bytes]:
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
            "head_commit": {"id": f"{number + 1:040x}", "message": "Change", "author": {"name": "Ada"}},
        }
    ).encode()
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {"x-github-event": "push", "x-github-delivery": f"delivery-{number}", "content-type": "application/json"}
    return {**headers, "x-hub-signature-256": f"sha256={signature}"}, body


async def flood(url: str, seconds: int) -> tuple[list[int], list[float]]:
    """Send them evenly; the statuses of the answers, and how long each took."""
    statuses: list[int] = []
    waits: list[float] = []
    limits = httpx.Limits(max_connections=100)
    async with httpx.AsyncClient(limits=limits, timeout=60) as client:

        async def send(number: int) -> None:
            headers, body = delivery(number)
            begin = time.perf_counter()
            answer = await client.post(f"{url}/hooks/1", content=body, headers=headers)
            waits.append(time.perf_counter() - begin)
            statuses.append(answer.status_code)

        begin, tasks = time.perf_counter(), []
        for number in range(seconds * A_SECOND):
            await asyncio.sleep(max(0.0, begin + number / A_SECOND - time.perf_counter()))
            tasks.append(asyncio.create_task(send(number)))
        await asyncio.gather(*tasks)
    return statuses, sorted(waits)


def main() -> int:
    """Flood a new service; returns 1 where a delivery was not accepted, or not handled once."""
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        service = ServiceProcess(folder, {"PATCHGEN_WORKERS": "0", "PATCHGEN_INDEX_URL": "http://127.0.0.1:9"})
        service.command("add-repository", "acme/models", str(folder), "--forge", "github")
        site = open_site(ServiceSettings(folder))
        with site.transactions() as session:
            repository = session.get_one(Repository, 1)
            repository.webhook_secret, repository.branches = site.secrets.encrypt(SECRET), ["*"]
        with service:
            begin = time.perf_counter()
            statuses, waits = asyncio.run(flood(service.url, seconds))
            took = time.perf_counter() - begin
        with site.readings() as session:
            runs = session.scalar(select(func.count()).select_from(Run)) or 0
    accepted = statuses.count(202)
    print(f"{accepted} of {len(statuses)} accepted in {took:.1f} s, {runs} runs begun")
    print(f"answered in {waits[len(waits) // 2]:.3f} s (median), {waits[int(len(waits) * 0.99)]:.3f} s (99 %)")
    return int(not accepted == len(statuses) == runs)


if __name__ == "__main__":
    sys.exit(main())
