"""What the pages show, to whom, and in which order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from service_samples import NOW, make_result
from service_team import Team
from web_visitors import SHA, Visitor, add_member, drifted, make_site, red_run, words_of

from patchgen_service.database.tables import Release, Repository
from patchgen_service.records.files import keep_file
from patchgen_service.records.repositories import read_secret
from patchgen_service.web.site import Site

HOSTILE = "<script>alert(1)</script>'; DROP TABLE run; --"
PAGES = ("/", "/approvals", "/releases", "/work", "/audit", "/settings", "/repositories/1", "/repositories/1/releases")


def publish(team: Team) -> None:
    """Let everybody look at the repository."""
    with team.transactions() as session:
        team.repository(session).is_public = True


def test_a_repository_is_shown_to_those_who_have_a_role_in_it_alone(sqlite_team: Team, visitor: Visitor) -> None:
    run = red_run(sqlite_team)
    add_member(sqlite_team, "ada", "viewer")
    addresses = (f"/runs/{run}", "/repositories/1", "/repositories/1/branches/main", f"/runs/{run}/report.html")
    assert "acme/models" not in visitor.get("/").text
    assert [visitor.get(address).status_code for address in addresses] == [404] * 4
    visitor.enter("ada")
    assert "acme/models" in visitor.get("/").text
    assert [visitor.get(address).status_code for address in addresses] == [200] * 4


def test_what_is_red_comes_first_on_the_first_page(sqlite_team: Team, visitor: Visitor) -> None:
    publish(sqlite_team)
    sqlite_team.run("b" * 40)
    sqlite_team.run("c" * 40, {"parity[eager]": "failed"}, branch="zzz")
    page = words_of(visitor.get("/").text)
    assert "1 of 2 branches is red" in page
    assert page.index("zzz") < page.index("main")


def test_a_branch_is_green_when_a_run_says_so_and_red_with_the_first_red_result(
    sqlite_team: Team, visitor: Visitor
) -> None:
    publish(sqlite_team)
    run = sqlite_team.begin("b" * 40)
    sqlite_team.start(run)
    assert "1 branch, and no run has ended yet." in words_of(visitor.get("/").text)
    sqlite_team.add(run, make_result("models.red", "contract", "failed"))
    assert "1 of 1 branch is red" in words_of(visitor.get("/").text)
    assert "1 result 1 red" in words_of(visitor.get("/").text)
    sqlite_team.end(run)
    sqlite_team.run("c" * 40)
    assert "green 1 branch, none of them red" in words_of(visitor.get("/").text)


def test_a_run_shows_what_is_new_then_its_diff_then_what_to_do(sqlite_team: Team, visitor: Visitor) -> None:
    publish(sqlite_team)
    before = sqlite_team.run("b" * 40, {"drift": "clean", "contract": "failed"})
    run = red_run(sqlite_team, make_result("models.old", "contract", "failed"), baseline=before)
    page = words_of(visitor.get(f"/runs/{run}").text)
    parts = (
        "New since",
        "models.toy",
        "return x * 2",
        "return x * 3",
        "What to do",
        "patchgen --check --fix",
        "All configs",
    )
    at = 0
    for part in parts:
        at = page.index(part, at)


def test_names_of_others_are_shown_as_they_are_and_run_nowhere(sqlite_team: Team, visitor: Visitor) -> None:
    with sqlite_team.transactions() as session:
        repository = sqlite_team.repository(session)
        repository.name, repository.is_public = HOSTILE, True
    run = sqlite_team.begin(SHA, branch=HOSTILE, subject=HOSTILE, author=HOSTILE, actor=HOSTILE)
    sqlite_team.start(run)
    sqlite_team.add(run, drifted(HOSTILE, f"--- a (b)\n+++ a (c)\n@@ -1 +1 @@\n-1\n+{HOSTILE}\n"))
    sqlite_team.end(run)
    result = sqlite_team.results(run)["drift"]
    addresses = ["/", "/repositories/1", f"/runs/{run.id}", f"/results/{result.id}", "/work"]
    addresses += [f"/repositories/1/branches/{HOSTILE}".replace("/script", "%2Fscript")]
    for address in addresses:
        page = visitor.get(address)
        assert page.status_code == 200, address
        assert "<script>alert" not in page.text, address
        assert "alert(1)" in page.text, address


@pytest.mark.parametrize("text", ["junk", "0.1", ""])
def test_tables_of_others_that_cannot_be_drawn_are_left_out(sqlite_team: Team, visitor: Visitor, text: str) -> None:
    from patchgen_core.checks.result import Table

    publish(sqlite_team)
    run = sqlite_team.begin(SHA)
    sqlite_team.start(run)
    table = Table("toy: layers", ("what",), ((text,),))
    sqlite_team.add(run, make_result(item="parity[eager]", status="failed", tables=(table,)))
    sqlite_team.end(run)
    assert "parity[eager]" in words_of(visitor.get(f"/runs/{run.id}").text)


def test_a_page_of_a_run_asks_for_what_is_new_until_the_run_ends(sqlite_team: Team, visitor: Visitor) -> None:
    publish(sqlite_team)
    run = sqlite_team.begin(SHA)
    sqlite_team.start(run)
    first = visitor.get(f"/runs/{run.id}").text
    address = first.partition('hx-get="')[2].partition('"')[0]
    assert visitor.get(address).status_code == 204
    sqlite_team.add(run, drifted())
    assert "return x * 3" in words_of("<main" + visitor.get(address).text)
    sqlite_team.end(run)
    assert visitor.get(address).headers["hx-refresh"] == "true"
    assert "hx-get" not in visitor.get(f"/runs/{run.id}").text


def test_a_config_shows_who_turned_it_red_and_how_near_parity_is_to_its_limit(
    sqlite_team: Team, visitor: Visitor
) -> None:
    publish(sqlite_team)
    name = "Toy, padded, float32: largest part of what is allowed"
    for sha, share in (("a", 0.2), ("b", 0.4), ("c", 3.0)):
        run = sqlite_team.begin(sha * 40, subject=f"Commit {sha}", author=f"author-{sha}")
        sqlite_team.start(run)
        status = "failed" if share > 1 else "clean"
        sqlite_team.add(run, make_result(item="parity[eager]", status=status, figures={name: share}))
        sqlite_team.end(run)
    path = "models/toy_patch_gen_config.py"
    page = visitor.get("/repositories/1/config", params={"config": "models.toy", "path": path}).text
    turns = words_of(page).partition("When it turned red")[2]
    assert "Commit c" in turns
    assert "author-c" in turns
    assert "Commit b" not in turns.partition("Parity:")[0]
    assert "parity[eager]: part of what is allowed" in page
    assert page.count('class="over"') == 1
    assert "300 %" in page


def test_releases_say_since_which_one_a_config_breaks(sqlite_team: Team, visitor: Visitor) -> None:
    publish(sqlite_team)
    for version, status in (("5.9.0", "clean"), ("5.10.0", "failed"), ("5.11.0rc1", "failed")):
        sqlite_team.run(SHA, {"contract": status}, kind="release", transformers=version)
    page = words_of(visitor.get("/repositories/1/releases").text)
    assert "broken transformers 5.11.0rc1" in page.replace("✕ ", "")
    row = page.partition("breaks since")[2]
    assert "or another" not in row
    assert "5.10.0" in row
    sqlite_team.begin("b" * 40, kind="release", transformers="5.9.0")
    assert words_of(visitor.get("/repositories/1/releases").text) == page, "what is not over hides nothing"


def test_a_release_shows_patch_debt_and_what_upstream_changed(sqlite_team: Team, visitor: Visitor) -> None:
    publish(sqlite_team)
    sqlite_team.run(SHA, {"contract": "clean"}, kind="release", transformers="5.9.0")
    run = sqlite_team.run(SHA, {"contract": "failed"}, kind="release", transformers="5.11.0")
    change = {"config": "models.toy", "path": "toy.py", "kind": "gone", "about": "masking_utils.<b>", "detail": ""}
    needless = {"config": "models.toy", "target": "MLP.forward", "path": "toy.py", "line": 7, "reason": "now upstream"}
    content = json.dumps({"needless": [needless], "changes": [change], "notes": []}).encode()
    with sqlite_team.transactions() as session:
        session.add(Release(version="5.10.0", seen=NOW))
        keep_file(session, sqlite_team.store, run.id, "report", "./upgrade.json", content, NOW)
    page = words_of(visitor.get("/repositories/1/releases").text)
    assert "masking_utils.<b> ✕ gone 1 config" in page
    assert "Patch debt: 1 patch that 5.11.0 makes needless MLP.forward in toy.py:7: now upstream" in page
    assert "5.11.0, or another after 5.9.0" in page.partition("breaks since")[2]


def test_every_page_needs_nothing_of_others_and_no_script_of_its_own(sqlite_team: Team, visitor: Visitor) -> None:
    add_member(sqlite_team, "ada", is_admin=True)
    red_run(sqlite_team)
    visitor.enter("ada")
    for address in PAGES:
        page = visitor.get(address)
        assert page.status_code == 200, address
        assert "script-src 'self'" in page.headers["content-security-policy"]
        assert page.headers["x-content-type-options"] == "nosniff"
        assert not [text for text in (" style=", " onclick=", "<script>") if text in page.text], address


def test_a_number_that_no_database_has_room_for_is_no_page(visitor: Visitor) -> None:
    for address in ("/repositories/99999999999999999999", "/results/99999999999999999999", "/nothing", "/runs/x"):
        assert visitor.get(address).status_code == 404, address


@pytest.mark.parametrize(
    "address",
    [
        "/repositories/1/config?project=.&path=%00&config=x",
        "/repositories/1/branches/%00",
        "/runs/%00",
        "/runs/{run}/files/0?name=%00",
        "/audit?q=%00",
        "/sign-in?next=%00",
    ],
)
@pytest.mark.mostly_slow(4)
def test_a_name_that_no_database_takes_is_that_of_nothing(team: Team, tmp_path: Path, address: str) -> None:
    visitor = Visitor(make_site(team.transactions, team.store, tmp_path))
    add_member(team, "ada", is_admin=True)
    visitor.enter("ada")
    assert visitor.get(address.format(run=red_run(team))).status_code in (200, 400, 404)
    assert visitor.submit("/sign-in", "/sign-in", name="ada\0", password="guess").status_code in (400, 403)


def test_a_request_by_another_name_is_not_answered(sqlite_team: Team, tmp_path: Path) -> None:
    site = make_site(sqlite_team.transactions, sqlite_team.store, tmp_path, hosts=frozenset({"127.0.0.1"}))
    visitor = Visitor(site)
    assert visitor.get("/healthz").status_code == 200
    assert visitor.get("/healthz", headers={"host": "evil.example"}).status_code == 421


def test_secrets_are_on_no_page_and_stay_when_it_is_saved(sqlite_team: Team, visitor: Visitor, site: Site) -> None:
    add_member(sqlite_team, "ada", is_admin=True)
    visitor.enter("ada")
    fields = {"name": "acme/other", "url": "https://ada:hunter2@git.example/x.git", "forge_token": "ghp_secret"}
    page = visitor.submit("/settings", "/settings/repositories", **fields, webhook_secret="whisper")
    assert "acme/other" in page.text
    number = page.url.fragment.removeprefix("r")
    for address in ("/settings", "/audit", f"/repositories/{number}"):
        text = visitor.get(address).text
        assert not [secret for secret in ("ghp_secret", "whisper", "hunter2") if secret in text], address
    action = f"/settings/repositories/{number}"
    shown = {"name": "acme/other", "url": "https://git.example/x.git"}
    other = "https://git.example/y.git"
    for changed, url in ((shown, fields["url"]), ({**shown, "url": other}, other)):
        assert visitor.submit("/settings", action, **changed, schedule="0 4 * * *").status_code == 200
        with sqlite_team.transactions() as session:
            row = session.get_one(Repository, int(number))
            assert (row.url, row.schedule) == (url, "0 4 * * *")
            assert read_secret(row, "forge_token", site.secrets) == "ghp_secret"
            assert "ghp_secret" not in row.forge_token


def test_owners_of_folders_are_written_line_by_line(sqlite_team: Team, visitor: Visitor) -> None:
    add_member(sqlite_team, "ada", is_admin=True)
    visitor.enter("ada")
    fields = {"name": "acme/models", "url": "https://git.example/x.git"}
    owners = "models/llama = ada@example.com, eve@example.com\r\n\r\n. = https://chat.example/?a=b\r\n"
    page = visitor.submit("/settings", "/settings/repositories/1", **fields, owners=owners)
    assert "models/llama = ada@example.com, eve@example.com\n. = https://chat.example/?a=b\n</textarea>" in page.text
    with sqlite_team.transactions() as session:
        expected = {"models/llama": "ada@example.com, eve@example.com", ".": "https://chat.example/?a=b"}
        assert sqlite_team.repository(session).owners == expected
    wrong = visitor.submit("/settings", "/settings/repositories/1", **fields, owners="models/llama")
    assert (wrong.status_code, "names no owner of a folder" in words_of(wrong.text)) == (400, True)


def test_where_secrets_are_sent_is_changed_by_administrators_of_the_service_alone(
    sqlite_team: Team, visitor: Visitor
) -> None:
    """Else whoever administers a repository would have its token sent to a machine of their own."""
    add_member(sqlite_team, "grace", "admin")
    visitor.enter("grace")
    names = ("name", "url", "forge", "forge_url", "python", "is_trusted", "owners")
    page = visitor.get("/settings").text
    assert 'name="schedule"' in page
    assert [name for name in names if f'name="{name}"' in page.partition("<h2")[2].partition("Make a token")[2]] == []
    with sqlite_team.transactions() as session:
        before = [getattr(sqlite_team.repository(session), name) for name in names]
    evil = {"name": "acme/other", "url": "https://evil.example/x.git", "forge": "github", "is_trusted": "1"}
    evil |= {"forge_url": "https://evil.example", "python": "/root/python3", "owners": ". = https://evil.example"}
    visitor.submit("/settings", "/settings/repositories/1", **evil, schedule="0 4 * * *")
    with sqlite_team.transactions() as session:
        row = sqlite_team.repository(session)
        assert ([getattr(row, name) for name in names], row.schedule) == (before, "0 4 * * *")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("ssh://git@git.example:2222/acme/models.git", "ssh://git@git.example:2222/acme/models.git"),
        ("git@git.example:acme/models.git", "git@git.example:acme/models.git"),
        ("ssh://git:geheim@git.example/acme/models.git", "ssh://git@git.example/acme/models.git"),
        ("https://ada:geheim@git.example/acme/models.git", "https://git.example/acme/models.git"),
        ("https://geheim@git.example/acme/models.git", "https://git.example/acme/models.git"),
    ],
)
def test_an_address_is_shown_as_git_takes_it_and_without_its_password(
    sqlite_team: Team, visitor: Visitor, url: str, shown: str
) -> None:
    publish(sqlite_team)
    with sqlite_team.transactions() as session:
        sqlite_team.repository(session).url = url
    page = visitor.get("/repositories/1").text
    assert f"<code>{shown}</code>" in page
    assert "geheim" not in page
