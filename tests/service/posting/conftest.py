from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from cryptography.fernet import Fernet
from posting_team import PostingTeam
from service_samples import NOW
from service_team import Team

from patchgen_service.database.engine import Transactions
from patchgen_service.database.tables import Repository
from patchgen_service.posting.sending import Postage
from patchgen_service.secrets import SecretBox
from patchgen_service.settings import MailSettings
from patchgen_service.store import Store
from tests.service.forges.forge_server import TOKEN, ForgeServer
from tests.service.forges.github_app import make_app
from tests.service.git.conftest import new_origin
from tests.service.posting.mail_server import MailServer

__all__ = ["new_origin"]

SECRETS = SecretBox(Fernet.generate_key().decode())


@pytest.fixture(scope="session")
def http() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=5) as client:
        yield client


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    server = MailServer()
    yield server
    server.close()


@pytest.fixture
def forge() -> Iterator[ForgeServer]:
    server = ForgeServer("github")
    yield server
    server.close()


@pytest.fixture
def posting_team(
    sqlite_transactions: Transactions, store: Store, forge: ForgeServer, mail_server: MailServer, http: httpx.Client
) -> PostingTeam:
    """A team's repository on a forge."""
    with sqlite_transactions() as session:
        session.add(
            Repository(
                name="acme/models",
                url="https://git.example/acme/models.git",
                forge=forge.forge,
                forge_url=forge.url,
                forge_token=SECRETS.encrypt(TOKEN),
                webhook_secret=SECRETS.encrypt("hook"),
                projects=["."],
                created=NOW,
            )
        )
    mail = MailSettings("127.0.0.1", mail_server.port, "none", sender="gate@example.org")
    return PostingTeam(Team(sqlite_transactions, store), Postage(http, mail, SECRETS, make_app(forge, http)))
