"""Starting and stopping the service."""

from __future__ import annotations

import argparse
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from patchgen_core.errors import PatchgenError
from patchgen_service.database.engine import make_readings, make_transactions, open_database
from patchgen_service.database.tables import Base
from patchgen_service.web.app import build_app
from patchgen_service.web.site import Site

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(options: argparse.Namespace) -> int:
    """Serve until a signal; returns the exit code."""
    options.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    engine = open_database(f"sqlite:///{options.data / 'patchgen.db'}")
    Base.metadata.create_all(engine)
    hosts = frozenset(_LOOPBACK) if options.host in _LOOPBACK else frozenset()
    app = build_app(Site(make_readings(engine), make_transactions(engine), hosts))
    listener = _listen(options.host, options.port)
    print(f"patchgen serves http://{options.host}:{listener.getsockname()[1]}", flush=True)
    server = _Server(uvicorn.Config(app, log_level="warning", lifespan="off", server_header=False))
    server.run(sockets=[listener])
    return 0


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
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048
        )
    except OSError as error:
        raise PatchgenError(
            f"cannot listen at {host}:{port}: {error.strerror}", hint="--port takes another one"
        ) from None
