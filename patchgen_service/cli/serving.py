"""Starting and stopping the service."""

from __future__ import annotations

import argparse
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import uvicorn

from patchgen_core.errors import PatchgenError
from patchgen_service.database.engine import make_readings, make_transactions, open_database
from patchgen_service.database.migrating import upgrade_database
from patchgen_service.secrets import open_secrets
from patchgen_service.settings import LOOPBACK, ServiceSettings, read_settings
from patchgen_service.store import Store
from patchgen_service.web.app import build_app
from patchgen_service.web.site import Site


def serve(options: argparse.Namespace) -> int:
    """Serve until a signal; returns the exit code."""
    settings = settings_of(options)
    site = open_site(settings)
    listener = _listen(settings.host, settings.port)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    print(f"patchgen serves http://{host}:{listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(build_app(site), log_level="warning", lifespan="off", server_header=False)
    _Server(config).run(sockets=[listener])
    return 0


def settings_of(options: argparse.Namespace) -> ServiceSettings:
    """The settings that a command line, the environment and a file come to."""
    return read_settings(options.data, os.environ, options.config, host=options.host, port=options.port)


def open_site(settings: ServiceSettings) -> Site:
    """What pages work with: the database, made or brought to this version, the stored files and the secrets."""
    settings.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    secrets = open_secrets(settings.folder, os.environ, settings.is_local)
    engine = open_database(settings.database_url)
    upgrade_database(engine)
    public = urlsplit(settings.public_url)
    hosts = (
        frozenset(filter(None, (*LOOPBACK, public.hostname))) if settings.is_local or public.hostname else frozenset()
    )
    return Site(
        settings,
        secrets,
        Store(settings.files_folder),
        make_readings(engine),
        make_transactions(engine),
        hosts,
        public.scheme == "https",
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
