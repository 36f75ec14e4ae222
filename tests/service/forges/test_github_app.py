"""Signing in to GitHub as an app: by its key, for each repository it is installed on, and again when a token ends."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as generate_ec_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from patchgen_core.errors import PatchgenError
from patchgen_service.database.tables import Repository
from patchgen_service.forges.access import ForgeAccess, open_access
from patchgen_service.forges.api import ForgeError
from patchgen_service.forges.github.app import GithubApp, read_private_key
from patchgen_service.git.errors import GitError
from patchgen_service.secrets import SecretBox
from patchgen_service.settings import GithubAppSettings, ServiceSettings
from tests.service.forges.forge_server import APP_ID, TOKEN, Fault, ForgeServer
from tests.service.forges.github_app import make_app, make_key, write_key

_KEY = "QnJlYWtmYXN0IGlzIHRoZSBtb3N0IGltcG9ydGFudCE="
_NAME = "acme/models"


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=5) as client:
        yield client


@pytest.fixture
def github() -> Iterator[ForgeServer]:
    server = ForgeServer("github")
    yield server
    server.close()


@pytest.fixture
def moment() -> list[datetime]:
    return [datetime.now(timezone.utc)]


@pytest.fixture
def app(github: ForgeServer, http: httpx.Client, moment: list[datetime]) -> GithubApp:
    return make_app(github, http, lambda: moment[0])


def _repository(github: ForgeServer, secrets: SecretBox, token: str = "", url: str = "") -> Repository:
    root = url or github.url
    return Repository(
        name=_NAME, forge="github", url=f"{root}/{_NAME}.git", forge_url=root, forge_token=secrets.encrypt(token)
    )


def test_a_token_is_used_until_it_is_about_to_end(github: ForgeServer, app: GithubApp, moment: list[datetime]) -> None:
    assert app.read_token(_NAME) == app.read_token(_NAME) == "ghs_0"
    moment[0] += timedelta(minutes=54)
    assert app.read_token(_NAME) == "ghs_0"
    moment[0] += timedelta(minutes=2)
    assert app.read_token(_NAME) == "ghs_1"


def test_a_token_that_is_not_taken_is_asked_for_anew(app: GithubApp) -> None:
    assert app.read_token(_NAME) == "ghs_0"
    app.forget_token(_NAME)
    assert app.read_token(_NAME) == "ghs_1"


def test_another_key_is_not_let_in(github: ForgeServer, http: httpx.Client, app: GithubApp) -> None:
    stranger = GithubApp(http, github.url, APP_ID, make_key(1), github.now)
    with pytest.raises(ForgeError) as failed:
        stranger.read_token(_NAME)
    assert failed.value.kind == "authentication"
    assert github.grants == {}


def test_a_clock_that_is_a_little_wrong_does_no_harm(github: ForgeServer, http: httpx.Client, app: GithubApp) -> None:
    for minutes in (-1, 1):
        other = GithubApp(http, github.url, APP_ID, make_key(), lambda m=minutes: github.now() + timedelta(minutes=m))
        assert other.read_token(_NAME)


def test_where_the_app_is_not_installed_the_repositorys_own_token_is_used(
    github: ForgeServer, http: httpx.Client, app: GithubApp
) -> None:
    github.is_installed = False
    access = ForgeAccess(SecretBox(_KEY), app)
    with pytest.raises(ForgeError, match="the GitHub app is not installed on acme/models"):
        access.open_client(http, _repository(github, access.secrets))
    client = access.open_client(http, _repository(github, access.secrets, TOKEN))
    assert client is not None
    assert not client.has_check_runs
    github.is_installed = True
    client = access.open_client(http, _repository(github, access.secrets, TOKEN))
    assert client is not None
    assert client.has_check_runs


def test_an_app_is_for_its_own_github_alone(github: ForgeServer, app: GithubApp) -> None:
    access = ForgeAccess(SecretBox(_KEY), app)
    assert access.has_app(_repository(github, access.secrets))
    assert not access.has_app(_repository(github, access.secrets, url="https://github.com"))
    assert not access.can_post(_repository(github, access.secrets, url="https://github.com"))


def test_git_gets_in_with_the_token_of_the_moment(github: ForgeServer, app: GithubApp, moment: list[datetime]) -> None:
    access = ForgeAccess(SecretBox(_KEY), app)
    remote = access.make_remote(_repository(github, access.secrets))
    assert github.grants == {}, "nothing is asked before git is run"
    assert remote.read_token() == "ghs_0"
    moment[0] += timedelta(hours=2)
    assert remote.read_token() == "ghs_1"
    assert "ghs" not in repr(remote)


@pytest.mark.parametrize(("fault", "is_retried"), [(Fault(503), True), (Fault(401), False)])
def test_git_says_when_there_is_no_token(github: ForgeServer, app: GithubApp, fault: Fault, is_retried: bool) -> None:
    access = ForgeAccess(SecretBox(_KEY), app)
    github.faults = [fault]
    with pytest.raises(GitError) as failed:
        access.make_remote(_repository(github, access.secrets)).read_token()
    assert failed.value.is_retried == is_retried


def test_the_key_is_read_from_the_file_that_settings_name(tmp_path: Path, http: httpx.Client) -> None:
    write_key(tmp_path / "app.pem")
    settings = ServiceSettings(tmp_path, github_app=GithubAppSettings(APP_ID, "app.pem"))
    access = open_access(settings, SecretBox(_KEY), http, lambda: datetime.now(timezone.utc))
    assert access.app is not None
    assert access.app.serves("github", "https://github.com/")
    assert open_access(ServiceSettings(tmp_path), SecretBox(_KEY), http, datetime.now).app is None


def test_a_key_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    with pytest.raises(PatchgenError, match="cannot be read: No such file"):
        read_private_key(tmp_path / "app.pem")
    path = write_key(tmp_path / "app.pem")
    path.chmod(0o644)
    with pytest.raises(PatchgenError, match="others may read the key"):
        read_private_key(path)
    path.write_bytes(generate_ec_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(PatchgenError, match="is not an RSA key"):
        read_private_key(path)
    path.write_bytes(b"ssh-rsa AAAA")
    with pytest.raises(PatchgenError, match="is not a private key"):
        read_private_key(path)
