"""How the service gets into the forges of its repositories: by a token of each, or as a GitHub app."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import httpx

from patchgen_service.database.tables import Repository
from patchgen_service.forges.api import ForgeError
from patchgen_service.forges.client import ForgeClient
from patchgen_service.forges.clients import make_client, name_git_user
from patchgen_service.forges.github.app import GithubApp, read_private_key
from patchgen_service.git.command import Remote, hide_secrets
from patchgen_service.git.errors import GitError, GitErrorKind
from patchgen_service.records.repositories import read_secret
from patchgen_service.secrets import SecretBox
from patchgen_service.settings import ServiceSettings


@dataclass(frozen=True)
class ForgeAccess:
    """What the service gets in with. ``app`` is none where it is no app on GitHub."""

    secrets: SecretBox
    app: GithubApp | None = None

    def has_app(self, repository: Repository) -> bool:
        """Whether the app is for the forge that a repository is on; it may not be installed on the repository."""
        return self.app is not None and self.app.serves(repository.forge, repository.forge_url)

    def can_post(self, repository: Repository) -> bool:
        """Whether there is anything to get into a repository's forge with."""
        return repository.forge != "none" and (bool(repository.forge_token) or self.has_app(repository))

    def open_client(self, http: httpx.Client, repository: Repository) -> ForgeClient | None:
        """The client of a repository; none where it is on no forge, or there is nothing to get in with.

        The app goes first; its own token is for a repository that the app is not installed on. A ForgeError where the
        app gets no token. It may ask the forge: no transaction should be open.
        """
        token, is_app = self._find_token(repository)
        return make_client(http, repository.forge, repository.forge_url, repository.name, token, is_app)

    def make_remote(self, repository: Repository) -> Remote:
        """Where git finds a repository, and how it gets in."""
        own = read_secret(repository, "forge_token", self.secrets)
        token: str | Callable[[], str] = own
        if self.has_app(repository):
            title = hide_secrets(repository.url)

            def read_token() -> str:
                try:
                    return self._find_token(repository)[0]
                except ForgeError as error:
                    kind: GitErrorKind = "authentication" if error.is_final else "network"
                    raise GitError(kind, str(error), title) from error

            token = read_token
        return Remote(repository.url, token, name_git_user(repository.forge))

    def forget_token(self, repository: Repository) -> bool:
        """Get in with a new token the next time; whether there can be another."""
        if self.app is not None and self.has_app(repository):
            self.app.forget_token(repository.name)
            return True
        return False

    def _find_token(self, repository: Repository) -> tuple[str, bool]:
        """The token, and whether it is the app's."""
        own = read_secret(repository, "forge_token", self.secrets)
        if self.app is None or not self.has_app(repository):
            return own, False
        try:
            return self.app.read_token(repository.name), True
        except ForgeError as error:
            if own and error.kind == "missing":
                return own, False
            raise


def open_access(
    settings: ServiceSettings, secrets: SecretBox, http: httpx.Client, clock: Callable[[], datetime]
) -> ForgeAccess:
    """The access that settings say; a PatchgenError where the app's key cannot be read."""
    app = settings.github_app
    if not app.id:
        return ForgeAccess(secrets)
    key = read_private_key(settings.folder / app.private_key)
    return ForgeAccess(secrets, GithubApp(http, app.url, app.id, key, clock))
