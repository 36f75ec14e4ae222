"""Signing in by a forge: OAuth 2 with a state and PKCE, by Authlib. Imported when somebody does so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import httpx
import msgspec
from authlib.common.errors import AuthlibBaseError
from authlib.common.security import generate_token
from authlib.oauth2.client import OAuth2Client

from patchgen_service.accounts.forge_accounts import ForgeAccount
from patchgen_service.accounts.people import name_provider
from patchgen_service.settings import SignInSettings

_SECONDS = 15.0


class OAuthProblem(Exception):
    """Why a forge did not say who somebody is, in a sentence."""


@dataclass(frozen=True)
class _Endpoints:
    """Where a forge has what, from its root; ``login`` is what it calls an account's name."""

    authorize: str
    token: str
    user: str
    scope: str
    login: str = "login"


_ENDPOINTS = {
    "github": _Endpoints("/login/oauth/authorize", "/login/oauth/access_token", "/api/v3/user", "read:user"),
    "gitlab": _Endpoints("/oauth/authorize", "/oauth/token", "/api/v4/user", "read_user", "username"),
    "forgejo": _Endpoints("/login/oauth/authorize", "/login/oauth/access_token", "/api/v1/user", "read:user"),
}
_ROOTS = {"github": "https://github.com", "gitlab": "https://gitlab.com"}
_PUBLIC_USERS = {"https://github.com": "https://api.github.com/user"}


@dataclass(frozen=True)
class Beginning:
    """The address at the forge where somebody is sent, and what has to be remembered until they come back."""

    address: str
    state: str
    verifier: str


def begin_sign_in(settings: SignInSettings, back: str) -> Beginning:
    """Begin; ``back`` is the address of this service that the forge is to send them to."""
    verifier, endpoints = generate_token(64), _ENDPOINTS[settings.forge]
    client = _make_client(settings, back, None)
    root = root_url(settings)
    address, state = client.create_authorization_url(
        root + endpoints.authorize, state=generate_token(40), code_verifier=verifier
    )
    return Beginning(address, state, verifier)


def finish_sign_in(settings: SignInSettings, back: str, code: str, verifier: str) -> ForgeAccount:
    """The account of whoever comes back with this code; an OAuthProblem where the forge does not say."""
    root, endpoints = root_url(settings), _ENDPOINTS[settings.forge]
    try:
        with httpx.Client(timeout=_SECONDS) as http:
            token = _make_client(settings, back, http).fetch_token(
                root + endpoints.token,
                auth=lambda request: request,  # the secret goes with the form, as all forges take it
                code=code,
                code_verifier=verifier,
                client_id=settings.client_id,
                client_secret=settings.client_secret,
            )
            headers = {"authorization": f"Bearer {token['access_token']}", "accept": "application/json"}
            answer = http.get(_PUBLIC_USERS.get(root, root + endpoints.user), headers=headers)
            answer.raise_for_status()
            user = msgspec.json.decode(answer.content)
    except (httpx.HTTPError, AuthlibBaseError, msgspec.DecodeError, ValueError, KeyError) as error:
        raise OAuthProblem(f"The forge did not say who you are: {_explain(error)}") from error
    login, number = (user.get(name) if isinstance(user, Mapping) else None for name in (endpoints.login, "id"))
    if not isinstance(login, str) or not login or isinstance(number, bool) or not isinstance(number, int):
        raise OAuthProblem("The forge did not say who you are: its answer names no account.")
    email = user.get("email")
    provider = name_provider(settings.forge, settings.url)
    return ForgeAccount(provider, str(number), login, email if isinstance(email, str) else "")


def root_url(settings: SignInSettings) -> str:
    """The root of the forge, without a slash at its end."""
    return settings.url.rstrip("/") or _ROOTS[settings.forge]


def _make_client(settings: SignInSettings, back: str, http: httpx.Client | None) -> OAuth2Client:
    return OAuth2Client(
        http,
        client_id=settings.client_id,
        scope=_ENDPOINTS[settings.forge].scope,
        redirect_uri=back,
        code_challenge_method="S256",
    )


def _explain(error: Exception) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"it answered {error.response.status_code}."
    if isinstance(error, AuthlibBaseError):
        return f"{error.description or error.error}."
    return "it cannot be reached." if isinstance(error, httpx.HTTPError) else "its answer is not understood."
