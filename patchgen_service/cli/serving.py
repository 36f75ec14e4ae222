"""Starting and stopping the service."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import uvicorn

from patchgen_core.errors import PatchgenError
from patchgen_service.cli.logs import begin_to_log
from patchgen_service.database.engine import make_readings, make_transactions, open_database
from patchgen_service.database.migrating import upgrade_database
from patchgen_service.records.repositories import declare_repositories
from patchgen_service.secrets import KEY_NAME, KEY_VARIABLE, open_secrets
from patchgen_service.settings import LOOPBACK, ServiceSettings
from patchgen_service.settings_file import read_settings
from patchgen_service.store import Store
from patchgen_service.web.app import build_app
from patchgen_service.web.site import NoWork, Site, Work

_LOG = logging.getLogger("patchgen.service")
_SECONDS_IDLE = 90
"""How long a connection is kept that nothing comes over: longer than clients and proxies keep theirs, such as nginx
with 60 seconds. Of the two, the client must be the first to end it: a request that meets its end is lost."""


def serve(options: argparse.Namespace) -> int:
    """Serve until a signal; returns the exit code."""
    begin_to_log()
    settings = settings_of(options)
    check_app(settings)
    work = LateWork()
    site = open_site(settings, work)
    with site.transactions() as session:
        declare_repositories(session, site.secrets, settings.repositories, os.environ, site.clock())
    listener = _listen(settings.host, settings.port)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    print(f"patchgen serves http://{host}:{listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(
        build_app(site),
        log_config=None,
        log_level="warning",
        lifespan="off",
        server_header=False,
        timeout_keep_alive=_SECONDS_IDLE,
    )
    background = _Background(site, work)
    try:
        _Server(config).run(sockets=[listener])
    finally:
        background.stop()
    return 0


def work(options: argparse.Namespace) -> int:
    """Carry out runs for a service elsewhere, on the same database, until a signal; returns the exit code."""
    from patchgen_service.cli.background import work_until

    begin_to_log()
    settings = settings_of(options)
    settings = replace(settings, public_url=options.service or settings.public_url)
    _refuse_worker(settings)
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    name = options.name or socket.gethostname()
    print(f"patchgen executes runs as '{name}'", flush=True)
    work_until(open_site(settings), name, stopped)
    return 0


def _refuse_worker(settings: ServiceSettings) -> None:
    """A PatchgenError where a worker lacks what it needs."""
    if not settings.database.startswith("postgresql"):
        raise PatchgenError(
            "workers on other machines need PostgreSQL", None, "Set 'database', or PATCHGEN_DATABASE, to its URL."
        )
    if not settings.public_url.startswith(("http://", "https://")):
        hint = "Give its address with --service, such as https://patchgen.example.com."
        raise PatchgenError("a worker must know where its service is", None, hint)
    if not os.environ.get(KEY_VARIABLE) and not (settings.folder / KEY_NAME).exists():
        hint = f"Set {KEY_VARIABLE} to that of the service; without one, it is in the service's {KEY_NAME}."
        raise PatchgenError("a worker needs the key of its service to reach repositories", None, hint)


class LateWork:
    """Hands on what pages ask for, once the background work is there; what is asked for before is found by it."""

    def __init__(self) -> None:
        self.jobs: Work | None = None

    def begin(self, run_id: str) -> None:
        """Carry out a run."""
        if self.jobs is not None:
            self.jobs.begin(run_id)

    def tell(self, run_id: str) -> None:
        """Tell elsewhere how a run is."""
        if self.jobs is not None:
            self.jobs.tell(run_id)

    def cancel(self, run_id: str) -> None:
        """Stop a run."""
        if self.jobs is not None:
            self.jobs.cancel(run_id)

    def approve(self, approval_id: int) -> None:
        """Carry out an approval."""
        if self.jobs is not None:
            self.jobs.approve(approval_id)

    def propose_release(self, repository_id: int, version: str, actor: str) -> None:
        """Propose a release."""
        if self.jobs is not None:
            self.jobs.propose_release(repository_id, version, actor)

    def handle_deliveries(self) -> None:
        """Do what webhooks asked for."""
        if self.jobs is not None:
            self.jobs.handle_deliveries()

    def forget_runs(self, runs: Sequence[str]) -> None:
        """Stop runs that were removed."""
        if self.jobs is not None:
            self.jobs.forget_runs(runs)


class _Background:
    """The background work of this process, which begins after the first page can be seen."""

    def __init__(self, site: Site, work: LateWork) -> None:
        self._site, self._work = site, work
        self._stop: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._start, name="start of the jobs", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop; what is under way is resumed by the next start."""
        self._thread.join()
        self._stop()

    def _start(self) -> None:
        from patchgen_service.cli.background import make_site_jobs

        try:
            jobs = make_site_jobs(self._site)
            jobs.start()
        except Exception:
            _LOG.exception("the background work did not start: the service shows pages, and executes no runs")
            return
        self._work.jobs, self._stop = jobs, jobs.stop
        pass_over_loaded()


def pass_over_loaded() -> None:
    """Have the garbage collector pass over all that is there now, which stays as long as the process.

    Else it goes over that again in one of twenty requests that read thousands of rows, and who waits for the page
    waits for a tenth of a second more.
    """
    gc.collect()
    gc.freeze()


def check_app(settings: ServiceSettings) -> None:
    """Look at the key of the app on GitHub before anything begins; a PatchgenError where it cannot be used."""
    if settings.github_app.private_key:
        from patchgen_service.forges.github.app import read_private_key

        read_private_key(settings.folder / settings.github_app.private_key)


def settings_of(options: argparse.Namespace) -> ServiceSettings:
    """The settings that a command line, the environment and a file come to."""
    return read_settings(options.data, os.environ, options.config, host=options.host, port=options.port)


def open_site(settings: ServiceSettings, work: Work | None = None) -> Site:
    """What pages work with: the database, made or brought to this version, the stored files and the secrets."""
    settings.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    secrets = open_secrets(settings.folder, os.environ, settings.is_local)
    engine = open_database(settings.database_url)
    upgrade_database(engine)
    public = urlsplit(settings.public_url)
    names = filter(None, (*LOOPBACK, public.hostname, *settings.host_names))
    hosts = frozenset(names if settings.is_local or public.hostname else ())
    return Site(
        settings,
        secrets,
        Store(settings.files_folder),
        make_readings(engine),
        make_transactions(engine),
        hosts,
        public.scheme == "https",
        work=work or NoWork(),
    )


class _Server(uvicorn.Server):
    """A server for which being told to stop is no failure."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take signals as wishes to stop, and do not die of them afterwards."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise PatchgenError(
            f"cannot listen at {host}:{port}: {error.strerror}", hint="--port takes another one"
        ) from None
