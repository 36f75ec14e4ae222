"""Forgejo's and Gitea's API, which every server documents at ``/api/swagger``."""

from __future__ import annotations

import httpx

from patchgen_service.forges.api import Api
from patchgen_service.forges.issues import IssuesClient


class ForgejoClient(IssuesClient):
    """A repository on a Forgejo or Gitea server."""

    def __init__(self, http: httpx.Client, url: str, name: str, token: str) -> None:
        headers = {"Authorization": f"token {token}", "User-Agent": "pytest-patchgen"}
        super().__init__(Api(http, f"{url.rstrip('/')}/api/v1", headers), name)
