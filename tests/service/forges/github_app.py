"""A GitHub app, with a key of its own, on a server that knows it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import httpx
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from patchgen_service.forges.github.app import GithubApp
from tests.service.forges.forge_server import APP_ID, ForgeServer


@functools.cache
def make_key(number: int = 0) -> RSAPrivateKey:
    return generate_private_key(65537, 2048)


def write_key(path: Path) -> Path:
    """The key as GitHub gives it."""
    key = make_key().private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    path.write_bytes(key)
    path.chmod(0o600)
    return path


def make_app(server: ForgeServer, http: httpx.Client, clock: Callable[[], datetime] | None = None) -> GithubApp:
    """An app whose clock is the server's."""
    server.app_key = make_key().public_key()
    server.now = clock or (lambda: datetime.now(timezone.utc))
    return GithubApp(http, server.url, APP_ID, make_key(), server.now)
