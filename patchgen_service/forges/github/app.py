"""Signing in to GitHub as an app: https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from msgspec import Struct

from patchgen_core.errors import PatchgenError
from patchgen_service.forges.api import Api, ForgeError
from patchgen_service.forges.github.client import api_url, make_headers

_CLOCK_DIFFERENCE = timedelta(minutes=1)
_PROOF_LENGTH = timedelta(minutes=8)
"""GitHub takes no more than ten minutes, by its own clock."""
_SPARE = timedelta(minutes=5)
"""A token that ends sooner is not begun with."""


class _Installation(Struct):
    id: int


class _InstallationToken(Struct):
    token: str
    expires_at: datetime


@dataclass(frozen=True)
class _Grant:
    token: str
    ends: datetime


class GithubApp:
    """An app on GitHub, which gets into the repositories that it is installed on.

    Args:
        url: the root of its GitHub; empty for github.com.
        app_id: the app's id or its client id.
    """

    def __init__(
        self, http: httpx.Client, url: str, app_id: str, key: RSAPrivateKey, clock: Callable[[], datetime]
    ) -> None:
        self._http, self._url, self._id, self._key, self._clock = http, url, app_id, key, clock
        self._grants: dict[str, _Grant] = {}
        self._lock = threading.Lock()

    def serves(self, forge: str, url: str) -> bool:
        """Whether repositories of a forge at ``url`` can have this app."""
        return forge == "github" and api_url(url) == api_url(self._url)

    def read_token(self, name: str) -> str:
        """A token that gets into a repository for some minutes at least; asked for anew only when the last one ends.

        A ForgeError, ``missing`` where the app is not installed on the repository.
        """
        with self._lock:
            grant = self._grants.get(name)
            if grant is None or not self._clock() < grant.ends - _SPARE:
                grant = self._grants[name] = self._ask(name)
            return grant.token

    def forget_token(self, name: str) -> None:
        """Ask for a new token with the next use: the one there is was not taken."""
        with self._lock:
            self._grants.pop(name, None)

    def _ask(self, name: str) -> _Grant:
        api = Api(self._http, api_url(self._url), make_headers(self._sign_proof()))
        try:
            installation = api.ask("GET", f"/repos/{name}/installation", _Installation)
        except ForgeError as error:
            if error.kind != "missing":
                raise
            raise ForgeError("missing", f"the GitHub app is not installed on {name}") from None
        only = {"repositories": [name.rpartition("/")[2]]}
        grant = api.ask("POST", f"/app/installations/{installation.id}/access_tokens", _InstallationToken, only)
        return _Grant(grant.token, grant.expires_at)

    def _sign_proof(self) -> str:
        """A JSON Web Token that proves to be the app (RFC 7519, algorithm RS256 of RFC 7518)."""
        now = self._clock()
        claims = {
            "iat": int((now - _CLOCK_DIFFERENCE).timestamp()),
            "exp": int((now + _PROOF_LENGTH).timestamp()),
            "iss": self._id,
        }
        signed = f"{_encode({'alg': 'RS256', 'typ': 'JWT'})}.{_encode(claims)}"
        return f"{signed}.{_encode_bytes(self._key.sign(signed.encode(), PKCS1v15(), SHA256()))}"


def read_private_key(path: Path) -> RSAPrivateKey:
    """The private key of an app, from the PEM file that GitHub gives; a PatchgenError where it is none."""
    hint = "Make one in the app's settings on GitHub: Private keys, Generate a private key."
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except OSError as error:
        raise PatchgenError(f"the private key of the GitHub app, '{path}', cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise PatchgenError(f"'{path}' is not a private key of a GitHub app", None, hint) from None
    if not isinstance(key, RSAPrivateKey):
        raise PatchgenError(f"'{path}' is not an RSA key, which a GitHub app needs", None, hint)
    if path.stat().st_mode & 0o077:
        raise PatchgenError(f"others may read the key in '{path}'", None, f"Restrict it: chmod 600 {path}")
    return key


def _encode(value: dict[str, Any]) -> str:
    return _encode_bytes(json.dumps(value, separators=(",", ":")).encode())


def _encode_bytes(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
