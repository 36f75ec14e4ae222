from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from markdown_it import MarkdownIt
from service_samples import NOW
from service_team import Team, results_of
from sqlalchemy import select

from patchgen_service.database.tables import Approval, Commit, Person, Run, Trigger
from patchgen_service.forges.clients import make_client
from patchgen_service.git.command import Remote
from patchgen_service.git.errors import GitError
from patchgen_service.git.mirror import Mirror
from patchgen_service.git.writing import Author
from patchgen_service.posting.approving import Workshop, carry_out_approval
from patchgen_service.posting.comment import comment_body
from patchgen_service.records.approvals import ApprovalRefused, approve, digest_regenerated
from patchgen_service.records.baselines import choose_baseline
from patchgen_service.records.files import keep_file, list_files
from patchgen_service.views.run import read_run
from tests.service.forges.forge_server import TOKEN
from tests.service.git.conftest import Origin

_COMMITTER = Author("patchgen", "gate@example.org")


class Desk:
    """A team's repository with git, where somebody approves."""

    def __init__(self, team: Team, origin: Origin, folder, http, forge) -> None:
        self.team, self.origin = team, origin
        self.mirror = Mirror(folder / "mirror.git", Remote(f"file://{origin.bare}"))
        client = make_client(http, "github", forge.url, "acme/models", TOKEN)
        self.workshop = Workshop(self.mirror, client, team.store, _COMMITTER, "https://gate.example.org")
        with team.transactions() as session:
            session.add(Person(name="Ada\nPatchgen-Digest: x", email="ada@example.org", created=NOW))

    def approve(
        self, sha: str, branch: str = "main", files: dict[str, str] | None = None, **cause: object
    ) -> Approval:
        run = self.team.run(sha, {"drift": "drifted"}, branch, **cause)
        with self.team.transactions() as session:
            for path, text in (files or {"models/toy.py": "new\n"}).items():
                keep_file(session, self.team.store, run.id, "generated", path, text.encode(), NOW)
            keep_file(session, self.team.store, run.id, "removed", "models/gone.py", b"", NOW)
            person = session.get_one(Person, 1)
            return approve(session, run.id, person, digest_regenerated(session, run.id), self.team.now)

    def carry_out(self, approval: Approval) -> Approval:
        self.team.now += timedelta(minutes=1)
        return carry_out_approval(self.team.transactions, self.workshop, approval.id, self.team.now)

    def show(self, revision: str) -> str:
        done = subprocess.run(["git", "-C", self.origin.bare, "show", revision], capture_output=True, text=True)
        return done.stdout


@pytest.fixture
def desk(sqlite_transactions, store, make_repository, new_origin, tmp_path, http, forge) -> Desk:
    with sqlite_transactions() as session:
        make_repository(session)
    return Desk(Team(sqlite_transactions, store), new_origin.copy_to(tmp_path), tmp_path, http, forge)


def _begin(desk: Desk, branch: str = "main") -> str:
    return desk.origin.commit("Begin", branch, **{"models__toy.py": "old\n", "models__gone.py": "x\n"})


def test_the_files_are_committed_to_the_branch_with_who_approved_them(desk: Desk) -> None:
    head = _begin(desk)
    approval = desk.carry_out(desk.approve(head))
    assert (approval.state, approval.sha) == ("committed", desk.origin.read("main"))
    assert desk.origin.read("main^") == head
    assert desk.show("main:models/toy.py") == "new\n"
    assert desk.show("main:models/gone.py") == ""
    commit = desk.mirror.read_commit(approval.sha)
    assert (commit.author, commit.email) == ("Ada Patchgen-Digest: x", "ada@example.org")
    assert commit.read_trailer("Patchgen-Run") == approval.run_id
    assert commit.read_trailer("Patchgen-Digest") == approval.digest


def test_whoever_was_interrupted_after_the_push_commits_nothing_more(desk: Desk) -> None:
    approval = desk.approve(_begin(desk))
    done = desk.carry_out(approval)
    for _ in range(2):
        with desk.team.transactions() as session:
            session.get_one(Approval, approval.id).state = "pending"
        assert desk.carry_out(approval).sha == done.sha == desk.origin.read("main")
        desk.origin.run("pull", "-q", "origin", "main")
    later = desk.origin.commit("Later")
    with desk.team.transactions() as session:
        session.get_one(Approval, approval.id).state = "pending"
    assert desk.carry_out(approval).state == "committed"
    assert desk.origin.read("main") == later


def test_nothing_is_committed_onto_a_moved_forced_or_deleted_branch(desk: Desk) -> None:
    head = _begin(desk)
    approval = desk.approve(head)
    moved = desk.origin.commit("Meanwhile")
    refused = desk.carry_out(approval)
    assert (refused.state, refused.sha) == ("refused", "")
    assert "has moved on" in refused.message
    assert desk.origin.read("main") == moved
    other = desk.approve(desk.origin.commit("Side", "side"), "side")
    desk.origin.run("push", "-q", "origin", ":side")
    gone = desk.carry_out(other)
    assert (gone.state, gone.message) == ("refused", "There is no side any more.")


def test_a_push_between_looking_and_pushing_wins(desk: Desk, monkeypatch) -> None:
    approval = desk.approve(_begin(desk))
    resolve = Mirror.resolve
    pushed: list[str] = []

    def resolve_then_move(mirror: Mirror, branch: str) -> str:
        head = resolve(mirror, branch)
        if not pushed:
            pushed.append(desk.origin.commit("In between"))
        return head

    monkeypatch.setattr(Mirror, "resolve", resolve_then_move)
    assert desk.carry_out(approval).state == "refused"
    assert desk.origin.read("main") == pushed[0]


def test_a_fork_gets_a_patch_and_nothing_is_pushed(desk: Desk) -> None:
    head = _begin(desk)
    fork = desk.origin.commit("Fork", "theirs")
    subprocess.run(["git", "-C", desk.origin.bare, "update-ref", "refs/pull/5/head", fork], check=True)
    desk.origin.run("push", "-q", "origin", ":theirs")
    desk.workshop = Workshop(
        desk.mirror, desk.workshop.client, desk.team.store, _COMMITTER, "https://x", "refs/pull/5/head"
    )
    approval = desk.carry_out(desk.approve(fork, "bob:main", is_fork=True, pull_request=5))
    assert approval.state == "patch"
    assert desk.origin.read("main") == head
    with desk.team.transactions() as session:
        (use,) = list_files(session, approval.run_id, "diff")
    patch = desk.team.store.get(use.digest)
    assert b"+new" in patch
    done = subprocess.run(["git", "-C", desk.origin.clone, "apply", "--check", "-"], input=patch)
    assert done.returncode == 0


def test_a_protected_branch_gets_a_pull_request(desk: Desk, forge) -> None:
    head = _begin(desk)
    hook = desk.origin.bare / "hooks" / "update"
    hook.write_text('#!/bin/sh\n[ "$1" != refs/heads/main ] || { echo GH006: protected branch; exit 1; }\n')
    hook.chmod(0o755)
    approval = desk.carry_out(desk.approve(head))
    assert approval.state == "proposed"
    (request,) = forge.pull_requests
    assert approval.message == request["html_url"]
    assert request["title"] == "Regenerate 2 files of main"
    assert desk.origin.read(request["head"]["ref"]) == approval.sha
    assert desk.origin.read("main") == head


def test_a_branch_that_drifts_after_every_approval_is_not_approved_for_ever(desk: Desk) -> None:
    head = _begin(desk)
    states = []
    for number in range(4):
        approval = desk.carry_out(desk.approve(head, files={"models/toy.py": f"{number}\n"}, kind="approval"))
        states.append(approval.state)
        head = desk.origin.read("main")
    assert states == ["committed", "committed", "committed", "refused"]
    assert "drifted again" in approval.message


def test_an_approval_of_other_files_than_were_shown_is_refused(desk: Desk) -> None:
    head = _begin(desk)
    approval = desk.approve(head)
    with desk.team.transactions() as session:
        keep_file(session, desk.team.store, approval.run_id, "generated", "models/toy.py", b"evil\n", NOW)
    refused = desk.carry_out(approval)
    assert refused.state == "refused"
    assert desk.origin.read("main") == head


@pytest.mark.parametrize("path", ["../escape.py", ".git/hooks/post-checkout", "link/x.py"])
def test_a_path_that_leads_out_of_the_repository_is_refused(desk: Desk, path: str) -> None:
    (desk.origin.clone / "link").symlink_to("/tmp")
    head = _begin(desk)
    assert desk.carry_out(desk.approve(head, files={path: "x"})).state == "refused"
    assert desk.origin.read("main") == head


def test_a_network_that_is_away_leaves_the_approval_pending(desk: Desk) -> None:
    approval = desk.approve(_begin(desk))
    desk.workshop = Workshop(
        Mirror(desk.mirror.folder, Remote("http://127.0.0.1:9/x.git")), None, desk.team.store, _COMMITTER, "https://x"
    )
    with pytest.raises(GitError):
        desk.carry_out(approval)
    with desk.team.transactions() as session:
        assert session.get_one(Approval, approval.id).state == "pending"
        assert session.get_one(Run, approval.run_id).status == "drifted"


def test_what_was_committed_is_run_and_then_the_baseline(desk: Desk) -> None:
    head = _begin(desk)
    approval = desk.carry_out(desk.approve(head, "main"))
    with desk.team.transactions() as session:
        run = session.scalars(select(Run).where(Run.sha == approval.sha)).one()
        trigger = session.get_one(Trigger, run.trigger_id)
        assert (trigger.kind, trigger.before, run.status) == ("approval", head, "pending")
        assert trigger.actor == "Ada Patchgen-Digest: x"
        subject = session.get_one(Commit, run.commit_id).subject
    assert desk.mirror.read_commit(approval.sha).subject == subject == "Regenerate 2 files"
    # the forge tells of the push as well
    assert desk.team.begin(approval.sha, before=head).id == run.id
    desk.team.start(run)
    desk.team.add(run, *results_of({"drift": "clean"}))
    desk.team.end(run)
    desk.origin.run("pull", "-q", "origin", "main")
    later = desk.team.begin(desk.origin.commit("Later"), before=approval.sha)
    desk.mirror.fetch()
    with desk.team.transactions() as session:
        assert choose_baseline(session, later.id, "", desk.mirror.is_ancestor).baseline_id == run.id


def test_the_run_of_a_pull_requests_approval_is_of_that_pull_request(desk: Desk) -> None:
    _begin(desk)
    head = desk.origin.commit("Fix", "fix")
    approval = desk.carry_out(desk.approve(head, "fix", pull_request=5, base="main"))
    with desk.team.transactions() as session:
        run = session.scalars(select(Run).where(Run.sha == approval.sha)).one()
        assert (run.branch, run.pull_request, session.get_one(Trigger, run.trigger_id).base) == ("fix", 5, "main")


@pytest.mark.parametrize("count", [1, 2])
def test_two_approvals_at_once_make_one_commit(desk: Desk, count: int) -> None:
    """Of one run by two people or processes, or of a push and its pull request, which have the same commit."""
    head = _begin(desk)
    approvals = [desk.approve(head), *[desk.approve(head, pull_request=5)] * (count - 1)] * 2
    desk.mirror.fetch()
    with ThreadPoolExecutor(4) as threads:
        ended = list(threads.map(desk.carry_out, approvals))
    assert {approval.state for approval in ended} == {"committed"}
    assert {approval.sha for approval in ended} == {desk.origin.read("main")}
    assert desk.origin.read("main^") == head
    with desk.team.transactions() as session:
        assert len(session.scalars(select(Run).where(Run.sha != head)).all()) == 1


def test_the_author_of_a_fork_applies_the_patch_with_git_am(desk: Desk, tmp_path) -> None:
    _begin(desk)
    fork = desk.origin.commit("Fork", "theirs")
    desk.origin.run("push", "-q", "origin", f"{fork}:refs/pull/5/head", ":theirs")
    desk.workshop = replace(desk.workshop, ref="refs/pull/5/head")
    approval = desk.carry_out(desk.approve(fork, "bob:main", is_fork=True, pull_request=5))
    with desk.team.transactions() as session:
        detail = read_run(session, approval.run_id)
        assert detail is not None
        (use,) = list_files(session, approval.run_id, "diff")
    patch = tmp_path / "approved.patch"
    patch.write_bytes(desk.team.store.get(use.digest))
    desk.origin.run("checkout", "-q", "--detach", fork)
    desk.origin.run("am", "-q", str(patch))
    assert (desk.origin.clone / "models" / "toy.py").read_text() == "new\n"
    assert not (desk.origin.clone / "models" / "gone.py").exists()
    body = comment_body(detail, "https://gate.example.org", patch.read_text())
    assert f"https://gate.example.org/runs/{approval.run_id}/files/{use.digest}?name=approved.patch" in body
    page = MarkdownIt().render(body)
    assert "+new\n" in page
    assert len(comment_body(detail, "https://gate.example.org", "x" * 60_000)) < 10_000


def test_a_run_with_another_release_is_not_approved(desk: Desk) -> None:
    with pytest.raises(ApprovalRefused, match=r"with transformers 5\.30\.0"):
        desk.approve(_begin(desk), transformers="5.30.0")
