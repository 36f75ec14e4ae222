"""The forges that people sign in with, as pages name them."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from patchgen_service.accounts.people import name_provider
from patchgen_service.settings import ServiceSettings, SignInSettings

_WORDS = {"github": "GitHub", "gitlab": "GitLab", "forgejo": "Forgejo"}


@dataclass(frozen=True)
class SignInForge:
    """A forge to sign in with: ``name`` stands in addresses, ``label`` on buttons."""

    name: str
    label: str
    settings: SignInSettings

    @property
    def provider(self) -> str:
        """What identities of people there go by."""
        return name_provider(self.settings.forge, self.settings.url)

    @property
    def origin(self) -> str:
        """Where forms may lead to; empty for the forges' own addresses."""
        parts = urlsplit(self.settings.url)
        return f"{parts.scheme}://{parts.netloc}" if parts.netloc else f"https://{self.settings.forge}.com"


def sign_in_forges(settings: ServiceSettings) -> tuple[SignInForge, ...]:
    """The forges to sign in with; the second one of a kind has its number in its name."""
    forges: list[SignInForge] = []
    for one in settings.sign_ins:
        count = 1 + sum(forge.settings.forge == one.forge for forge in forges)
        label = f"{_WORDS[one.forge]} at {urlsplit(one.url).netloc}" if one.url else _WORDS[one.forge]
        forges.append(SignInForge(one.forge if count == 1 else f"{one.forge}-{count}", label, one))
    return tuple(forges)
