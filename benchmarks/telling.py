"""How soon a red result is known: on the page of its run, on the forge, and to those who are told.

A service of its own carries out runs in which every config drifts. A page is asked for news as often as it says, the
forge takes 0.15 s for an answer, and mail server and receiver of webhooks are on this machine. Seconds are those of
the clock, not of a processor.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import func, select

from patchgen_core.checks.result import BAD, CheckResult, pack
from patchgen_service.cli.serving import open_site
from patchgen_service.database.tables import Repository, Result, Run
from patchgen_service.records.new_runs import RunCause, begin_run
from patchgen_service.records.results import add_results
from patchgen_service.records.runs import end_run, start_run
from patchgen_service.settings import ServiceSettings
from patchgen_service.web.site import Site
from tests.service.forges.forge_server import APP_ID, TOKEN, ForgeServer
from tests.service.forges.github_app import make_key, write_key
from tests.service.posting.mail_server import MailServer
from tools.service_kills import WHO, make_repository, run_git
from tools.service_process import ServiceProcess

_SINCE_RESULT = ("page", "commit status", "check run")
"""What tells of the first red result; mail and webhooks tell of all of them, at the end of the run."""
_SINCE_END = ("mail", "webhook")
TOLD = tuple(f"red: {name}" for name in (*_SINCE_RESULT, *_SINCE_END))
_SECONDS_TO_ANSWER = 0.15
_SECONDS_TO_WAIT = 60
_SETTINGS = """
[mail]
server = "127.0.0.1"
port = {mail}
security = "none"
sender = "gate@example.org"

[github_app]
id = "{app}"
private_key = "app.pem"
url = "{forge}"
"""


class _DistantForge(ForgeServer):
    """A forge that takes a while to answer, as those in other towns do."""

    def answer(self, method: str, path: str, query: dict[str, str], content: Any, token: str) -> tuple[int, Any]:
        """The status and body for a request."""
        time.sleep(_SECONDS_TO_ANSWER)
        return super().answer(method, path, query, content, token)


@dataclass(frozen=True)
class Receivers:
    """Where a service tells of its runs."""

    forge: _DistantForge
    mail: MailServer
    hooks: list[str]
    hook_url: str

    def has(self, name: str, run: str) -> bool:
        """Whether one of them has been told that a run is red."""
        if name == "commit status":
            return any(run in status["target_url"] and status["state"] == "failure" for status in self.forge.statuses)
        if name == "check run":
            titles = [own["output"]["title"] for own in self.forge.check_runs if own.get("external_id") == run]
            return any("red" in title or "new" in title for title in titles)
        texts = [mail.as_string() for mail in self.mail.mails] if name == "mail" else self.hooks
        return any(run in text for text in texts)


def time_telling(folder: Path, database: str, runs: int) -> Mapping[str, list[float]]:
    """The seconds until each is told, of so many runs: from the first red result, or from the end of the run."""
    folder.mkdir()
    make_repository(folder / "repository", 3)
    with ExitStack() as stack:
        receivers = stack.enter_context(_open_receivers())
        site = _open_service(folder / "service", database, folder / "repository", receivers)
        service = stack.enter_context(ServiceProcess(site.settings.folder, {"PATCHGEN_DATABASE": database}))
        times: dict[str, list[float]] = {}
        for number in range(runs + 1):
            own = _time_run(site, service.url, folder / "repository", number, receivers)
            for name, seconds in own.items() if number else ():  # the first makes the environment
                times.setdefault(f"red: {name}", []).append(seconds)
    return times


@contextmanager
def _open_receivers() -> Iterator[Receivers]:
    hooks: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Take a webhook."""
            hooks.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing is printed."""

    server, forge, mail = ThreadingHTTPServer(("127.0.0.1", 0), Handler), _DistantForge("github"), MailServer()
    forge.app_key = make_key().public_key()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield Receivers(forge, mail, hooks, f"http://127.0.0.1:{server.server_address[1]}/hook")
    finally:
        server.shutdown()
        server.server_close()
        forge.close()
        mail.close()


def _open_service(folder: Path, database: str, code: Path, receivers: Receivers) -> Site:
    """A service with the repository, of which a run has passed that others are compared with."""
    folder.mkdir()
    write_key(folder / "app.pem")
    text = _SETTINGS.format(mail=receivers.mail.port, app=APP_ID, forge=receivers.forge.url)
    (folder / "service.toml").write_text(text, encoding="utf-8")
    site = open_site(ServiceSettings(folder, database=database))
    path = "models/toy0/toy0_patch_gen_config.py"
    with site.transactions() as session:
        now = site.clock()
        repository = Repository(
            name="acme/models",
            url=str(code),
            forge="github",
            forge_url=receivers.forge.url,
            forge_token=site.secrets.encrypt(TOKEN),
            projects=["."],
            checks=["drift", "contract"],
            owners={".": f"ada@example.org {receivers.hook_url}"},
            is_public=True,
            created=now,
        )
        session.add(repository)
        session.flush()
        run = begin_run(
            session, repository, RunCause("manual", "first", "main", run_git(code, "rev-parse", "HEAD")), now
        )
        start_run(session, run.id, "worker", now)
        result = CheckResult("models.toy0", path, 3, "drift", "clean", item=f"{path}::drift")
        add_results(session, site.store, run, ".", [pack(result)], now)
        end_run(session, run.id, now)
    return site


def _time_run(site: Site, url: str, code: Path, number: int, receivers: Receivers) -> dict[str, float]:
    run_git(code, *WHO, "commit", "-q", "--allow-empty", "-m", f"Commit {number}")
    with site.transactions() as session:
        cause = RunCause("manual", f"button-{number}", f"b{number}", run_git(code, "rev-parse", "HEAD"))
        run = begin_run(session, session.scalars(select(Repository)).one(), cause, site.clock()).id
    told: dict[str, datetime] = {}
    watch = threading.Thread(target=lambda: told.update({"page": _watch_page(url, f"/runs/{run}")}), daemon=True)
    watch.start()
    for name in _wait_for(
        {name: lambda name=name: receivers.has(name, run) for name in (*_SINCE_RESULT[1:], *_SINCE_END)}
    ):
        told[name] = datetime.now(timezone.utc)
    watch.join(_SECONDS_TO_WAIT)
    with site.readings() as session:
        red = session.scalars(
            select(func.min(Result.received)).where(Result.run_id == run, Result.status.in_(BAD))
        ).one()
        end = session.get_one(Run, run).ended
    assert red is not None
    assert end is not None
    begins = {**dict.fromkeys(_SINCE_RESULT, red), **dict.fromkeys(_SINCE_END, end)}
    return {name: (told[name] - begin).total_seconds() for name, begin in begins.items()}


def _wait_for(conditions: dict[str, Callable[[], bool]]) -> Iterator[str]:
    """The name of each condition as soon as it holds."""
    deadline = time.monotonic() + _SECONDS_TO_WAIT
    while conditions:
        assert time.monotonic() < deadline, f"nothing was told to: {', '.join(conditions)}"
        for name in [name for name, holds in conditions.items() if holds()]:
            del conditions[name]
            yield name
        time.sleep(0.005)


def _watch_page(url: str, address: str) -> datetime:
    """When a browser shows that a run is red, which asks as often as the page says."""
    with httpx.Client(base_url=url, timeout=_SECONDS_TO_WAIT) as browser:
        text = browser.get(address).text
        while 'id="h-new"' not in text:
            asked = re.search(r'hx-get="([^"]*)" hx-trigger="every (\d+)ms"', text)
            assert asked is not None, f"the page of a run that is not red: {text[-3000:]}"
            time.sleep(int(asked[2]) / 1000)
            answer = browser.get(asked[1].replace("&amp;", "&"))
            if "hx-refresh" in answer.headers:
                answer = browser.get(address)
            text = answer.text or text
    return datetime.now(timezone.utc)
