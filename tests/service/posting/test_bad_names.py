"""SQL, HTML and Markdown in every name: branch, author, config, message, approver. All is shown, nothing is obeyed."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt
from posting_team import URL, PostingTeam
from service_samples import NOW, make_result
from sqlalchemy import select, text

from patchgen_core.errors import Problem
from patchgen_service.accounts.people import add_person
from patchgen_service.database.tables import Person, Run
from patchgen_service.posting.feed import write_feed
from patchgen_service.records.approvals import approve, digest_regenerated, end_approval
from patchgen_service.records.files import keep_file
from patchgen_service.views.lines import read_lines

_A, _B = "a" * 40, "b" * 40
_HTML = "</summary></code><img src=x onerror=alert(1)><script>alert(2)</script>"
_SQL = "'; DROP TABLE run;-- \" OR 1=1"
_MARKDOWN = "`|@everyone #1 [x](javascript:1) ![y](https://evil.example/y.png)\n\n# title\n```\n<!-- patchgen:0 -->"
_NAMES = [_HTML, _SQL, _MARKDOWN]


def _run(posting_team: PostingTeam, name: str) -> Run:
    """A pull request's run in which everything that has a name has this one, approved by somebody of that name."""
    team = posting_team.team
    clean = name.replace("\n", " ")
    posting_team.change(owners={".": "ada@example.org"})
    path = f"models/{clean.replace('/', '')}.py"
    posting_team.run(_A, make_result(name, path=path), tells=False)
    run = team.begin(_B, clean, pull_request=5, subject=name, author=name, actor=name, base="main")
    team.start(run)
    team.add(run, make_result(name, "drift", "drifted", path, errors=(Problem(name),)))
    with team.transactions() as session:
        keep_file(session, team.store, run.id, "generated", path, name.encode(), NOW)
        keep_file(session, team.store, run.id, "diff", "approved.patch", f"+{name}\n".encode(), NOW)
    run = team.end(run)
    with team.transactions() as session:
        person = add_person(session, clean[:80], "tests", NOW)
        approval = approve(session, run.id, person, digest_regenerated(session, run.id), team.now)
        end_approval(session, approval.id, "patch", team.now, message=name)
    posting_team.queue(run)
    posting_team.send()
    return run


def _render(body: str) -> str:
    page: str = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(body)
    return page


def _check_page(page: str) -> None:
    for forbidden in ("<img", "<script", "<h1", 'href="javascript', 'evil.example/y.png"', "<!-- patchgen:0"):
        assert forbidden not in page, page
    assert page.count("<summary>") == page.count("</summary>") == page.count("</details>")


@pytest.mark.parametrize("name", _NAMES)
def test_comment_and_check_run_show_names_as_they_are(posting_team: PostingTeam, forge: Any, name: str) -> None:
    _run(posting_team, name)
    (comment,) = forge.comments
    for body in (comment["body"].partition("\n")[2], forge.check_runs[-1]["output"]["summary"]):
        _check_page(_render(body))
        assert "@everyone" not in _outside_code(body)
    remark = forge.check_runs[-1]["annotations"][0]
    assert name.split()[0] in remark["message"]
    assert "\n" not in remark["title"]
    with posting_team.team.transactions() as session:
        assert session.execute(text("SELECT count(*) FROM run")).scalar() == 2
        assert session.scalars(select(Person.name)).all() == [name.replace("\n", " ")[:80]]


def _outside_code(body: str) -> str:
    """What of a body is text, in which names would be called."""
    tokens = MarkdownIt("gfm-like", {"linkify": False, "html": True}).parse(body)
    return "".join(child.content for token in tokens for child in token.children or () if child.type != "code_inline")


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.mostly_slow(1)
def test_mail_and_feed_show_names_as_they_are(posting_team: PostingTeam, mail_server: Any, name: str) -> None:
    posting_team.change(owners={".": "ada@example.org"})
    posting_team.run(_A, make_result(name, path="models/a.py"), tells=False)
    red = make_result(name, "drift", "drifted", "models/a.py", errors=(Problem(name),))
    posting_team.run(_B, red, before=_A, author=name, subject=name)
    posting_team.send()
    (mail,) = mail_server.mails
    assert "\n" not in mail["Subject"]
    page = mail.get_body(("html",)).get_content()
    assert "<img" not in page
    assert "<script" not in page
    with posting_team.team.transactions() as session:
        feed = write_feed(name, f"{URL}/feed", URL, read_lines(session, Run.id.is_not(None)))
    root = ElementTree.fromstring(feed)
    assert [element.tag for element in root.iter() if element.tag.rpartition("}")[2] in ("img", "script")] == []
    assert name.split()[0] in root.findtext("{http://www.w3.org/2005/Atom}title", "")
