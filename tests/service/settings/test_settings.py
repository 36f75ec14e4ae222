"""What the service is told by its file and its environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen_core.errors import PatchgenError
from patchgen_service.settings import RunLimits, ServiceSettings, SignInSettings
from patchgen_service.settings_file import CONFIG_NAME, read_settings

EXAMPLE = """
host = "0.0.0.0"
public_url = "https://patchgen.example/"

[limits]
seconds = 60

[retention]
logs = 0

[[repository]]
name = "acme/models"
url = "https://git.example/acme/models.git"
branches = ["main", "release/*"]
owners = { "models/llama" = "ada@example.com" }

[[repository]]
name = "acme/other"
url = "git@git.example:acme/other.git"
forge = "forgejo"
[repository.owners]
"models" = "bob@example.com"
"""


def read(
    folder: Path, text: str | None, environment: dict[str, str] | None = None, **options: object
) -> ServiceSettings:
    if text is not None:
        (folder / CONFIG_NAME).write_text(text)
    return read_settings(folder, environment or {}, **options)  # type: ignore[arg-type]


def test_nothing_needs_to_be_said(tmp_path: Path) -> None:
    settings = read(tmp_path, None)
    assert (settings.host, settings.port, settings.is_local) == ("127.0.0.1", 8765, True)
    assert settings.database_url == f"sqlite:///{tmp_path}/service.sqlite"
    assert settings.base_url == "http://127.0.0.1:8765"
    assert settings.file is None


def test_a_file_says_what_is_different(tmp_path: Path) -> None:
    settings = read(tmp_path, EXAMPLE)
    assert (settings.base_url, settings.is_local) == ("https://patchgen.example", False)
    assert settings.limits == RunLimits(seconds=60)
    assert (settings.retention.logs, settings.retention.runs) == (0, 730)
    one, two = settings.repositories
    assert (one.branches, one.projects, one.owners) == (
        ("main", "release/*"),
        (".",),
        {"models/llama": "ada@example.com"},
    )
    assert (two.forge, two.owners) == ("forgejo", {"models": "bob@example.com"})


def test_the_environment_wins_over_the_file_and_the_command_line_over_both(tmp_path: Path) -> None:
    environment = {
        "PATCHGEN_HOST": "10.0.0.1",
        "PATCHGEN_PORT": "9000",
        "PATCHGEN_LIMITS_SECONDS": "5",
        "PATCHGEN_MAIL_PASSWORD": "hidden",
        "PATCHGEN_SOMETHING_ELSE": "1",
        "PATCHGEN_HOST_NAMES": "patchgen, service,",
    }
    settings = read(tmp_path, EXAMPLE, environment, port=7, host=None)
    assert (settings.host, settings.port, settings.limits.seconds) == ("10.0.0.1", 7, 5)
    assert settings.host_names == ("patchgen", "service")
    assert settings.mail.password == "hidden"
    assert "hidden" not in repr(settings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hots = 'a'", "service.toml:1: there is no setting 'hots'\n  Did you mean 'host'?"),
        ("\nport = '1'", "service.toml:2: port must be a whole number, not '1'"),
        ("port = 70000", "service.toml:1: port must be a port from 0 to 65535, not 70000"),
        ("workers = -1", "service.toml:1: workers must be a whole number, not -1"),
        ("workers = true", "service.toml:1: workers must be a whole number, not True"),
        ("isolation = 'none'", "service.toml:1: isolation must be one of auto, bubblewrap, podman, not 'none'"),
        ("[limits]\nsecond = 1", "service.toml:2: there is no setting 'limits.second'\n  Did you mean 'seconds'?"),
        ("limits = 1", "service.toml:1: limits must be a table, not 1"),
        ("[[repository]]\nname = 'a'", "service.toml:1: a repository lacks 'url'"),
        (
            "[[repository]]\nname = 'a'\nurl = 'u'\n\n[[repository]]\nname = 'a'\nurl = 'u'",
            "service.toml:6: there are two repositories 'a'",
        ),
        (
            "[[repository]]\nname = 'a'\nurl = 'u'\n[[repository]]\nname = 'b'\nurl = 'u'\nforge = 'gihub'",
            "service.toml:7: repository.forge must be one of none, github, gitlab, forgejo, not 'gihub'\n"
            "  Did you mean 'github'?",
        ),
        (
            "[[repository]]\nname = 'a'\nurl = 'u'\nowners = ['x']",
            "service.toml:4: repository.owners must be a table of strings, "
            'such as { "models/llama" = "ada@example.com" }, not [\'x\']',
        ),
        ("repository = 3", "service.toml:1: repository must be tables: [[repository]]"),
        (
            "[[sign_in]]\nforge = 'github'\nclient_id = 'a'",
            "service.toml:1: a sign_in lacks 'client_secret'",
        ),
        (
            "[[sign_in]]\nforge = 'forgejo'\nclient_id = 'a'\nclient_secret = 'HIDDEN'\nunknown = 'view'",
            "service.toml:5: sign_in.unknown must be one of refuse, viewer, not 'view'\n  Did you mean 'viewer'?\n"
            "service.toml:2: sign_in lacks the url of its forge\n"
            "service.toml:4: the environment has no HIDDEN, which sign_in.client_secret names",
        ),
        ("host = ", "service.toml: not valid TOML: Invalid value (at end of document)"),
        (
            "database = 'mysql://me:secret@db/x'",
            "service.toml:1: database must be sqlite:///PATH or postgresql://USER@HOST/NAME, not 'mysql://me:***@db/x'",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PatchgenError) as error:
        read(tmp_path, text)
    assert str(error.value).replace(f"{tmp_path}/", "") == message


def test_the_secret_of_a_forge_to_sign_in_with_comes_from_the_environment(tmp_path: Path) -> None:
    text = "[[sign_in]]\nforge = 'github'\nclient_id = 'a'\nclient_secret = 'GITHUB_SECRET'\nunknown = 'viewer'"
    settings = read(tmp_path, text, {"GITHUB_SECRET": "hidden"})
    assert settings.sign_ins == (SignInSettings("github", "", "a", "hidden", "viewer"),)
    assert "hidden" not in repr(settings)


def test_several_problems_are_said_together(tmp_path: Path) -> None:
    with pytest.raises(PatchgenError) as error:
        read(tmp_path, "hots = 'a'\nport = 'b'\n[limits]\nx = 1", {"PATCHGEN_WORKERS": "many"})
    assert len(error.value.problems) == 4
    assert "the environment's PATCHGEN_WORKERS must be a whole number, not 'many'" in str(error.value)


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(PatchgenError, match="cannot be read: No such file"):
        read_settings(tmp_path, {}, tmp_path / "other.toml")
