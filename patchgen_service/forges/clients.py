"""The client of a repository's forge."""

from __future__ import annotations

from collections.abc import Callable

import httpx

from patchgen_service.forges.client import ForgeClient
from patchgen_service.forges.forgejo.client import ForgejoClient
from patchgen_service.forges.github.client import GithubClient
from patchgen_service.forges.gitlab.client import GitlabClient

_CLIENTS: dict[str, Callable[[httpx.Client, str, str, str], ForgeClient]] = {
    "gitlab": GitlabClient,
    "forgejo": ForgejoClient,
}
_USERS = {"github": "x-access-token", "gitlab": "oauth2"}


def make_client(
    http: httpx.Client, forge: str, url: str, name: str, token: str, is_app: bool = False
) -> ForgeClient | None:
    """The client of a repository; none where it is on no forge, or the service has no token for it.

    Args:
        url: the root of the forge, such as ``https://github.com``.
        name: the repository's path on it, such as ``acme/models``.
        is_app: whether the token is that of an app on GitHub.
    """
    if forge == "github" and token:
        return GithubClient(http, url, name, token, is_app)
    make = _CLIENTS.get(forge)
    return make(http, url, name, token) if make is not None and token else None


def name_git_user(forge: str) -> str:
    """The user that git names beside the token."""
    return _USERS.get(forge, "patchgen")
