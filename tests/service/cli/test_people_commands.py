"""``patchgen serve add-user`` and ``change-user``, as somebody types them."""

from __future__ import annotations

from pathlib import Path

import pytest
from service_samples import NOW

from patchgen_core.cli.main import main
from patchgen_service.accounts.forge_accounts import ForgeAccount, enter_by_forge
from patchgen_service.accounts.people import check_password, find_person, find_signed_in, sign_in
from patchgen_service.accounts.roles import find_role
from patchgen_service.accounts.tokens import add_token, find_bearer
from patchgen_service.cli.serving import open_site
from patchgen_service.database.tables import Repository
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


def test_who_has_left_is_kept_out_and_a_forgotten_password_is_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Browsers that were signed in and tokens go with it."""

    def serve(*arguments: str) -> tuple[int, str]:
        code = main(["serve", "--data", str(tmp_path), *arguments])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    site = open_site(ServiceSettings(tmp_path))
    serve("add-repository", "acme/models", "https://git.example/acme/models.git")
    monkeypatch.setenv("PATCHGEN_PASSWORD", "correct horse battery")
    code, text = serve("add-user", "ada", "--role", "acme/models=approvr")
    assert (code, "Did you mean 'approver'?" in text) == (2, True)
    assert serve("add-user", "ada", "--role", "acme/models=approver")[0] == 0
    with site.transactions() as session:
        ada = find_person(session, "ada")
        cookie, token = sign_in(session, ada, NOW), add_token(session, ada, "CI", ["run"], NOW)

    assert serve("change-user", "ada", "--keep-out") == (0, "ada is locked out.\n")
    with site.readings() as session:
        assert find_signed_in(session, cookie, NOW) is None
        assert find_bearer(session, token, NOW) is None
        assert check_password(session, "ada", "correct horse battery") is None
    monkeypatch.setenv("PATCHGEN_PASSWORD", "another horse battery")
    assert serve("change-user", "ada", "--let-in", "--password", "--role", "acme/models=viewer")[0] == 0
    with site.readings() as session:
        ada = find_person(session, "ada")
        assert check_password(session, "ada", "another horse battery") is not None
        assert find_role(session, ada, session.get_one(Repository, 1)) == "viewer"
    code, text = serve("change-user", "ada")
    assert (code, "--keep-out" in text) == (2, True)
    assert serve("change-user", "nobody", "--let-in")[1].rstrip().endswith("there is no person 'nobody'")
