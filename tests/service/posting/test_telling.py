from __future__ import annotations

import hashlib
import hmac
import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from markdown_it import MarkdownIt
from posting_team import URL, PostingTeam
from service_samples import make_result

from patchgen_core.errors import Problem
from patchgen_service.forges.client import Annotation
from patchgen_service.records.posts import MOST_ATTEMPTS
from tests.service.forges.forge_server import Fault

_A, _B, _C = "a" * 40, "b" * 40, "c" * 40
_EVIL = "</code><img src=x onerror=alert(1)>`|@everyone [x](javascript:1)\n\n# \"'<!-- --> '; DROP TABLE run;--"


_UNDONE = "no process to run models in can be started"


def _states(forge) -> list[str]:
    return [status["state"] for status in forge.statuses]


def _red(config: str, headline: str = "", item: str = "parity"):
    return make_result(config, item, "failed", errors=(Problem(headline or f"{config} is wrong"),))


def test_a_commit_is_pending_at_once_and_always_ended(posting_team: PostingTeam, forge) -> None:
    run = posting_team.team.begin(_A)
    posting_team.queue(run)
    posting_team.send()
    assert _states(forge) == ["pending"]
    posting_team.team.start(run)
    posting_team.team.add(run, make_result())
    posting_team.queue(posting_team.team.end(run))
    posting_team.send()
    assert _states(forge) == ["pending", "success"]
    assert forge.statuses[-1]["description"] == "1 check, none red"
    assert forge.statuses[-1]["target_url"] == f"{URL}/runs/{run.id}"
    assert [run["conclusion"] for run in forge.check_runs] == ["success"]


def test_a_run_that_goes_on_is_red_with_its_first_red_result(posting_team: PostingTeam, forge) -> None:
    run = posting_team.team.begin(_A)
    posting_team.team.start(run)
    posting_team.team.add(run, make_result(), undone := make_result("b", status="error", errors=(Problem(_UNDONE),)))
    posting_team.queue(run)
    posting_team.send()
    posting_team.team.add(run, _red("bad"))
    posting_team.queue(run)
    posting_team.send()
    assert (_states(forge), forge.statuses[-1]["description"]) == (["pending", "failure"], "2 red, running")
    (check_run,) = forge.check_runs
    assert (check_run["status"], check_run["output"]["title"]) == ("in_progress", "2 red, running")
    assert "`bad`" in check_run["output"]["summary"]
    posting_team.queue(posting_team.team.end(run))
    posting_team.send()
    assert _states(forge) == ["pending", "failure", "failure"]
    assert [remark["title"] for remark in forge.check_runs[0]["annotations"]] == [
        f"drift: {undone.config}",
        "parity: bad",
    ]


def test_a_superseded_run_does_not_stay_pending(posting_team: PostingTeam, forge) -> None:
    old = posting_team.team.begin(_A)
    posting_team.queue(old)
    posting_team.send()
    posting_team.queue(posting_team.team.begin(_B, before=_A))
    posting_team.queue(old)
    posting_team.send()
    assert [(status["sha"], status["state"]) for status in forge.statuses] == [
        (_A, "pending"),
        (_B, "pending"),
        (_A, "error"),
    ]


def test_queueing_again_tells_nothing_twice(posting_team: PostingTeam, forge) -> None:
    run = posting_team.run(_A, make_result())
    for _ in range(3):
        posting_team.queue(run)
        posting_team.send()
    assert _states(forge) == ["success"]
    assert sorted(posting_team.posts().values()) == ["obsolete", "obsolete", "sent", "sent"]


def test_what_is_new_since_the_baseline_comes_first(posting_team: PostingTeam, forge) -> None:
    posting_team.run(_A, make_result("ok"), make_result("worse"), _red("bad"), _red("mended"), tells=False)
    results = (make_result("ok"), _red("worse"), _red("bad"), make_result("mended", "parity"))
    posting_team.run(_B, *results, branch="fix", pull_request=5, merge_base=_A)
    posting_team.send()
    (comment,) = forge.comments
    body = comment["body"]
    assert comment["number"] == 5
    new, known, fixed = (body.index(title) for title in ("New since the baseline", "red before as well", ">1 fixed"))
    assert new < body.index("`worse`") < known < body.index("`bad`") < fixed < body.index("`mended`")
    assert forge.statuses[-1]["context"] == "patchgen (pull request)"
    assert "1 new, 1 known, 1 fixed" in forge.statuses[-1]["description"]
    levels = [remark["annotation_level"] for remark in forge.check_runs[-1]["annotations"]]
    assert levels == ["failure", "warning"]


def test_a_pull_request_has_one_comment_that_follows_it(posting_team: PostingTeam, forge) -> None:
    pull_request = {"branch": "fix", "pull_request": 5}
    posting_team.run(_A, _red("bad"), **pull_request)
    posting_team.send()
    assert "broken" in forge.comments[0]["body"]
    posting_team.run(_B, make_result("bad", "parity"), before=_A, **pull_request)
    posting_team.send()
    assert len(forge.comments) == 1
    assert "patchgen: passed" in forge.comments[0]["body"]


def test_a_green_pull_request_gets_no_comment(posting_team: PostingTeam, forge) -> None:
    posting_team.run(_A, make_result(), branch="fix", pull_request=5)
    posting_team.send()
    assert forge.comments == []


def test_an_older_run_does_not_speak_after_a_newer_one(posting_team: PostingTeam, forge) -> None:
    team = posting_team.team
    old = team.begin(_A, "fix", pull_request=5, kind="manual")
    team.start(old)
    posting_team.run(_B, make_result(), _red("newer"), branch="fix", pull_request=5, kind="manual")
    team.add(old, _red("older"))
    posting_team.queue(team.end(old))
    posting_team.send()
    assert ["newer" in comment["body"] for comment in forge.comments] == [True]


@pytest.mark.parametrize("name", [_EVIL, "`" * 5, "a\\", "|", "<!-- patchgen:0 -->"])
@pytest.mark.mostly_slow(2)
def test_names_are_shown_as_they_are(posting_team: PostingTeam, forge, mail_server, name) -> None:
    posting_team.change(owners={".": "ada@example.org"})
    posting_team.run(_A, make_result(name, path="a_patch_gen_config.py"), tells=False)
    posting_team.run(_B, _red(name, name, "drift"), branch="x", pull_request=5, merge_base=_A)
    posting_team.send()
    page = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(forge.comments[0]["body"])
    assert "<img" not in page
    assert "<h1" not in page
    assert "javascript:" not in page.replace("(javascript:1)", "")
    assert page.count("<tr>") == 2


def test_the_forge_is_not_told_of_a_run_with_another_release(posting_team: PostingTeam, forge) -> None:
    posting_team.run(_A, _red("bad"), transformers="5.30.0", kind="release")
    assert posting_team.send() == 0


def test_what_a_candidate_breaks_is_mailed_to_its_owners(posting_team: PostingTeam, forge, mail_server) -> None:
    posting_team.change(owners={".": "ada@example.org https://chat.example.org/hook"})
    posting_team.run(_A, make_result("bad", "parity"), _red("worn"), tells=False)
    for version, actor in (("5.30.0rc1", ""), ("5.29.0", "service"), ("5.28.0", "")):
        results = [_red("worn"), make_result("bad", "parity") if version == "5.28.0" else _red("bad")]
        posting_team.run(_A, *results, transformers=version, kind="release", actor=actor)
    posting_team.run(_A, _red("bad"), transformers="5.30.0rc1", kind="manual", actor="ada")
    posting_team.send()
    (mail,) = mail_server.mails
    text = mail.get_body(("plain",)).get_content()
    assert mail["Subject"] == "[acme/models] transformers 5.30.0rc1: 1 newly red (bad)"
    assert "reported to transformers before the release" in text
    assert "bad" in text
    assert "worn" not in text
    assert forge.statuses == []


def test_a_forge_that_fails_is_asked_again_later(posting_team: PostingTeam, forge) -> None:
    posting_team.run(_A, make_result())
    forge.faults = [Fault(500), Fault(429, {"Retry-After": "600"}), Fault()]
    assert posting_team.send() == 2
    assert sorted(posting_team.posts().values()) == ["obsolete", "obsolete", "waiting", "waiting"]
    posting_team.send(0.5)
    posting_team.send(9)
    assert len(forge.statuses) + len(forge.check_runs) == 1
    posting_team.send(11)
    assert (len(forge.statuses), len(forge.check_runs)) == (1, 1)


def test_a_forge_that_never_answers_is_given_up(posting_team: PostingTeam, forge) -> None:
    posting_team.change(forge="forgejo")
    posting_team.run(_A, make_result())
    forge.faults = [Fault(503)] * 100
    tries = sum(posting_team.send(61) for _ in range(MOST_ATTEMPTS + 3))
    assert tries == MOST_ATTEMPTS
    assert sorted(posting_team.posts().values()) == ["failed", "obsolete"]


def test_what_cannot_be_is_not_tried_again(posting_team: PostingTeam, forge) -> None:
    posting_team.run(_A, make_result())
    posting_team.postage.access.open_client(posting_team.postage.http, posting_team.repository())
    forge.faults = [Fault(422)] * 2
    posting_team.send()
    assert posting_team.send(600) == 0
    assert sorted(posting_team.posts().values()) == ["failed", "failed", "obsolete", "obsolete"]


def test_an_app_that_is_not_let_in_tries_again_with_a_new_token(posting_team: PostingTeam, forge) -> None:
    posting_team.run(_A, make_result())
    forge.faults = [Fault(401)] * 2
    posting_team.send()
    assert sorted(posting_team.posts().values()) == ["obsolete", "obsolete", "waiting", "waiting"]
    posting_team.send(1)
    assert (len(forge.statuses), len(forge.check_runs)) == (1, 1)


def test_without_an_app_there_are_statuses_and_the_comment(posting_team: PostingTeam, forge) -> None:
    posting_team.postage = replace(posting_team.postage, app=None)
    posting_team.run(_A, _red("bad"), branch="fix", pull_request=5)
    posting_team.send()
    assert (len(forge.statuses), len(forge.comments), forge.check_runs) == (1, 1, [])
    assert sorted(posting_team.posts().values()) == ["obsolete", "sent", "sent"]


def test_a_red_branch_is_mailed_to_the_owners_of_what_is_new(posting_team: PostingTeam, mail_server) -> None:
    posting_team.change(owners={"models/a": "ada@example.org", "models/b": "bob@example.org, eve@example.org"})
    clean = [make_result(name, "parity", path=f"models/{name}/c.py") for name in ("a", "b")]
    posting_team.run(_A, *clean)
    evil = make_result("a", "parity", "failed", "models/a/c.py", errors=(Problem(_EVIL),))
    posting_team.run(_B, evil, clean[1])
    posting_team.send()
    (mail,) = mail_server.mails
    assert mail["To"] == "ada@example.org"
    assert mail["Subject"] == "[acme/models] main: 1 newly red (a)"
    page = mail.get_body(("html",)).get_content()
    assert "<img" not in page
    assert "&lt;img" in page
    assert f"{URL}/runs/" in mail.get_body(("plain",)).get_content()


@pytest.mark.parametrize(("refusal", "state"), [("450 later", "waiting"), ("550 nobody", "failed")])
def test_a_mail_that_is_not_taken(posting_team: PostingTeam, mail_server, refusal, state) -> None:
    posting_team.change(owners={".": "ada@example.org"})
    posting_team.run(_A, make_result("a", "parity"))
    posting_team.run(_B, _red("a"))
    mail_server.refusal = refusal
    posting_team.send()
    assert [value for key, value in posting_team.posts().items() if key.startswith("mail")] == [state]
    mail_server.refusal = ""
    posting_team.send(61)
    assert len(mail_server.mails) == (state == "waiting")


def test_a_webhook_says_what_a_run_came_to_and_is_signed(posting_team: PostingTeam) -> None:
    taken: list[tuple[dict[str, str], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append((dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        posting_team.change(forge="none", owners={".": f"http://127.0.0.1:{server.server_address[1]}/hook"})
        posting_team.run(_A, _red("bad"))
        posting_team.send()
    headers, body = taken[0]
    signature = hmac.new(b"hook", body, hashlib.sha256).hexdigest()
    assert headers["X-Patchgen-Signature-256"] == f"sha256={signature}"
    run = json.loads(body)["run"]
    assert (run["status"], run["red"], run["branch"], run["sha"]) == ("broken", 1, "main", _A)


def test_annotations_are_at_the_config(posting_team: PostingTeam, forge) -> None:
    posting_team.run(_A, _red("models.a", "1 tensor differs"))
    posting_team.send()
    (remark,) = forge.check_runs[0]["annotations"]
    expected = Annotation("models/a_patch_gen_config.py", 3, "failure", "parity: models.a", "1 tensor differs")
    assert (remark["path"], remark["start_line"], remark["title"], remark["message"]) == (
        expected.path,
        expected.line,
        expected.title,
        expected.message,
    )
