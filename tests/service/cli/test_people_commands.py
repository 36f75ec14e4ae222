"""``patchgen serve add-user``, as somebody types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen_core.cli.main import main
from patchgen_service.accounts.forge_accounts import ForgeAccount, enter_by_forge
from patchgen_service.cli.serving import open_site
from patchgen_service.settings import ServiceSettings


def test_a_person_who_comes_in_by_a_forge_needs_no_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_SECRET", "hidden")
    (tmp_path / "service.toml").write_text(
        '[[sign_in]]\nforge = "github"\nclient_id = "patchgen"\nclient_secret = "GITHUB_SECRET"\n', encoding="utf-8"
    )
    command = ["serve", "--data", str(tmp_path), "add-user", "ada", "--account"]
    assert main([*command, "githup=Ada"]) == 2
    assert "Did you mean 'github'?" in capsys.readouterr().err
    assert main([*command, "github=Ada"]) == 0
    site = open_site(ServiceSettings(tmp_path))
    with site.transactions() as session:
        person = enter_by_forge(session, ForgeAccount("github", "42", "ada"), False, site.clock())
        assert person is not None
        assert (person.name, person.identities) == ("ada", {"github": "42"})
