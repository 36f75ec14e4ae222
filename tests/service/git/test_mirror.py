from __future__ import annotations

import os
import pickle
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from patchgen_service.git.command import Remote, make_environment, run_git
from patchgen_service.git.errors import GitError
from patchgen_service.git.mirror import Mirror, branch_ref


def test_a_fetch_follows_new_forced_and_deleted_branches(origin, mirror):
    first = origin.commit("one", model="a\n")
    origin.commit("side", branch="side/way", model="b\n")
    mirror.fetch()
    assert mirror.resolve("main") == first
    assert sorted(mirror.read_heads()) == ["main", "side/way"]
    origin.run("reset", "-q", "--hard", first)
    origin.run("push", "-q", "origin", ":side/way")
    forced = origin.commit("another side", branch="main", model="c\n")
    mirror.fetch()
    assert mirror.read_heads() == {"main": forced}
    with pytest.raises(GitError, match="There is no side/way any more") as gone:
        mirror.resolve("side/way")
    assert gone.value.kind == "branch"


def test_a_branch_may_take_the_name_of_a_folder_of_branches(origin, mirror):
    origin.commit("one", branch="a")
    mirror.fetch()
    origin.run("push", "-q", "origin", ":a")
    sha = origin.commit("two", branch="a/b")
    mirror.fetch()
    assert mirror.read_heads() == {"a/b": sha}


def test_a_commit_that_no_branch_has_any_more_can_still_be_looked_at(origin, mirror, tmp_path):
    old = origin.commit("old", model="a\n")
    mirror.fetch()
    origin.run("commit", "-q", "--amend", "-m", "other")
    new = origin.commit("new")
    mirror.fetch()
    assert mirror.read_commit(old).subject == "old"
    assert not mirror.is_ancestor(old, new)
    mirror.add_worktree(old, tmp_path / "tree")
    assert (tmp_path / "tree" / "model").read_text() == "a\n"


def test_a_commit_that_is_gone_says_so(origin, mirror, tmp_path):
    origin.commit("one")
    mirror.fetch()
    for ask in (mirror.read_commit, mirror.read_log, lambda sha: mirror.add_worktree(sha, tmp_path / "tree")):
        with pytest.raises(GitError, match="The commit is gone") as gone:
            ask("1" * 40)
        assert gone.value.kind == "commit"
    assert not (tmp_path / "tree").exists()
    assert not mirror.is_ancestor("1" * 40, mirror.resolve("main"))
    assert mirror.find_merge_base("1" * 40, mirror.resolve("main")) == ""


def test_history_tells_who_changed_a_file(origin, mirror):
    base = origin.commit("Add models\n\nWith reasons.", models__a="1\n", models__b="1\n")
    origin.commit("Change b", models__b="2\n")
    head = origin.commit("Change a\n\nText.\n\nPatchgen-Run: r1", models__a="2\n")
    mirror.fetch()
    log = mirror.read_log(head, paths=["models/a"])
    assert [commit.subject for commit in log] == ["Change a", "Add models"]
    assert (log[0].author, log[0].email) == ("Ada", "ada@example.org")
    assert log[1].message == "Add models\n\nWith reasons."
    assert log[0].read_trailer("Patchgen-Run") == "r1"
    assert [commit.subject for commit in mirror.read_log(head, since=base)] == ["Change a", "Change b"]
    assert mirror.list_changes(base, head) == ("models/a", "models/b")
    assert mirror.read_file(base, "models/a") == b"1\n"
    assert mirror.read_file(base, "models") is None


def test_merge_bases_and_ancestors(origin, mirror):
    base = origin.commit("base")
    main = origin.commit("main")
    origin.run("checkout", "-q", "--detach", base)
    side = origin.commit("side", branch="side")
    mirror.fetch()
    assert mirror.find_merge_base(main, side) == base
    assert mirror.is_ancestor(base, side)
    assert not mirror.is_ancestor(main, side)


def test_files_come_when_they_are_needed(origin, mirror, tmp_path):
    sha = origin.commit("one", model="content that is fetched late\n")
    mirror.fetch()
    blob = origin.run("rev-parse", f"{sha}:model")
    objects = run_git([f"--git-dir={mirror.folder}", "cat-file", "--batch-all-objects", "--batch-check"]).stdout
    assert sha.encode() in objects
    assert blob.encode() not in objects
    mirror.add_worktree(sha, tmp_path / "tree")
    assert (tmp_path / "tree" / "model").read_text() == "content that is fetched late\n"


def test_a_worktree_leads_nowhere_and_is_removed_whatever_its_code_did(origin, mirror, tmp_path):
    (origin.clone / "link").symlink_to("/etc")
    sha = origin.commit("one", deep__model="a\n")
    mirror.fetch()
    tree = tmp_path / "tree"
    mirror.add_worktree(sha, tree)
    assert sorted(path.name for path in tree.iterdir()) == ["deep", "link"]
    (tree / "deep").chmod(0o500)
    mirror.remove_worktree(tree)
    mirror.remove_worktree(tree)
    assert not tree.exists()
    assert Path("/etc/passwd").exists()


def test_a_pull_request_from_a_fork_is_fetched_by_its_reference(origin, mirror):
    main = origin.commit("main")
    mirror.fetch()
    fork = origin.commit("fork", branch="from-fork")
    subprocess.run(["git", "-C", origin.bare, "update-ref", "refs/pull/5/head", fork], check=True)
    origin.run("push", "-q", "origin", ":from-fork")
    mirror.fetch(["refs/pull/5/head"])
    mirror.fetch()
    assert mirror.resolve_ref("refs/pull/5/head") == fork
    assert mirror.find_merge_base(main, fork) == main
    with pytest.raises(GitError) as gone:
        mirror.fetch(["refs/pull/6/head"])
    assert gone.value.kind == "branch"


@pytest.mark.parametrize("name", ["", "-f", "a..b", "a b", "a/.b", "a.lock", "/a", "a/", "a~1", "a\n", "@{-1}", "a:b"])
def test_a_name_that_no_branch_can_have_is_not_given_to_git(mirror, name):
    with pytest.raises(GitError, match="No branch can have that name"):
        branch_ref(name)


@pytest.mark.parametrize("sha", ["main", "--upload-pack=x", "1" * 39, "HEAD", ""])
def test_what_is_no_commit_is_not_given_to_git(origin, mirror, sha):
    origin.commit("one")
    mirror.fetch()
    with pytest.raises(GitError, match="not a commit id"):
        mirror.read_commit(sha)


def test_the_token_opens_http_and_is_seen_nowhere(origin, git_server, tmp_path, monkeypatch):
    sha = origin.commit("one", model="a\n")
    url = git_server.url.replace("//", "//ada:hunter2@") + "/origin.git"
    commands: list[str] = []
    start = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda command, **rest: commands.append(str(command)) or start(command, **rest)
    )
    remote = Remote(f"{git_server.url}/origin.git", git_server.token)
    mirror = Mirror(tmp_path / "m.git", remote)
    mirror.fetch()
    mirror.add_worktree(sha, tmp_path / "tree")
    assert (tmp_path / "tree" / "model").read_text() == "a\n"
    assert git_server.token not in "".join(commands) + repr(mirror) + (tmp_path / "m.git" / "config").read_text()
    with pytest.raises(GitError) as refused:
        Mirror(tmp_path / "n.git", Remote(url, "wrong-token")).fetch()
    assert refused.value.kind == "authentication"
    assert str(refused.value).startswith("The forge did not accept")
    assert not any(word in f"{refused.value} {refused.value.detail}" for word in ("wrong-token", "hunter2"))


def test_the_token_goes_to_its_own_host_only():
    environment = make_environment(Remote("https://git.example.org/a/b.git", "secret"))
    names = [value for key, value in environment.items() if key.startswith("GIT_CONFIG_KEY")]
    assert "http.https://git.example.org/.extraHeader" in names
    assert "http.extraHeader" not in names


@pytest.mark.parametrize(
    ("status", "kind"), [(500, "network"), (429, "network"), (403, "authentication"), (404, "repository")]
)
def test_what_the_server_answers_is_told_apart(git_server, tmp_path, status, kind):
    git_server.status = status
    with pytest.raises(GitError) as failed:
        Mirror(tmp_path / "m.git", Remote(f"{git_server.url}/origin.git", git_server.token)).fetch()
    assert failed.value.kind == kind
    assert failed.value.is_retried == (kind == "network")


@pytest.mark.parametrize(
    ("url", "kind"), [("http://127.0.0.1:9/x.git", "network"), ("file:///nowhere/x.git", "repository")]
)
def test_a_repository_that_is_not_there(tmp_path, url, kind):
    with pytest.raises(GitError) as failed:
        Mirror(tmp_path / "m.git", Remote(url)).fetch()
    assert failed.value.kind == kind
    assert pickle.loads(pickle.dumps(failed.value)).detail == failed.value.detail


def test_an_address_that_would_run_a_command_does_not(tmp_path):
    with pytest.raises(GitError):
        Mirror(tmp_path / "m.git", Remote(f"ext::touch {tmp_path}/ran")).fetch()
    assert not (tmp_path / "ran").exists()


def test_git_that_hangs_is_ended_with_all_it_started(tmp_path):
    marker = tmp_path / "late"
    alias = f"alias.wait=!sleep 2; touch {marker}"
    with pytest.raises(GitError, match="took too long"):
        run_git(["-c", alias, "wait"], seconds=0.2)
    time.sleep(2.2)
    assert not marker.exists()


def test_what_a_killed_git_left_does_not_stop_the_next_fetch(origin, mirror):
    origin.commit("one")
    mirror.fetch()
    origin.commit("two", branch="other")
    for left in ("packed-refs.lock", "refs/heads/other.lock", "config.lock", "shallow.lock"):
        (mirror.folder / left).touch()
    (mirror.folder.with_name("1.git.new")).mkdir()
    mirror.fetch()
    assert sorted(mirror.read_heads()) == ["main", "other"]


def test_fetches_wait_for_one_another_even_when_their_process_was_killed(origin, mirror):
    origin.commit("one")
    mirror.fetch()
    with mirror._lock() as held:
        child = subprocess.Popen(["sleep", "30"], pass_fds=held)
    second = threading.Thread(target=mirror.fetch)
    second.start()
    second.join(0.5)
    assert second.is_alive()
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    second.join(20)
    assert not second.is_alive()
