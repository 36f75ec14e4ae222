from __future__ import annotations

import subprocess
from datetime import datetime, timezone

import pytest

from patchgen_service.git.command import Remote
from patchgen_service.git.errors import GitError
from patchgen_service.git.mirror import Mirror
from patchgen_service.git.writing import Author, commit_files, make_patch, push_commit

_SERVICE = Author("patchgen", "patchgen@example.org")
_ADA = Author("Ada <ada>", "ada@example.org")
_NOW = datetime(2026, 11, 23, 12, tzinfo=timezone.utc)


def _commit(mirror: Mirror, parent: str, **files: str | None) -> str:
    contents = {name.replace("__", "/"): text if text is None else text.encode() for name, text in files.items()}
    return commit_files(mirror, parent, contents, "Regenerate\n\nPatchgen-Run: r1\n", _ADA, _SERVICE, _NOW)


def test_files_are_committed_onto_the_head_that_was_shown(origin, mirror):
    (origin.clone / "script").write_text("#!/bin/sh\n")
    (origin.clone / "script").chmod(0o755)
    head = origin.commit("one", models__a="old\n", gone="x\n", kept="y\n")
    mirror.fetch()
    sha = _commit(mirror, head, models__a="new\n", models__deep__b="b\n", gone=None, script="#!/bin/bash\n")
    assert sha == _commit(mirror, head, models__a="new\n", models__deep__b="b\n", gone=None, script="#!/bin/bash\n")
    push_commit(mirror, sha, "main", head)
    origin.run("pull", "-q", "--ff-only", "origin", "main")
    shown = origin.run("show", "--stat", "--format=%an|%ae|%cn|%B", "HEAD")
    assert shown.startswith("Ada ada|ada@example.org|patchgen|Regenerate")
    assert (origin.clone / "models" / "a").read_text() == "new\n"
    assert (origin.clone / "models" / "deep" / "b").read_text() == "b\n"
    assert (origin.clone / "kept").read_text() == "y\n"
    assert not (origin.clone / "gone").exists()
    assert (origin.clone / "script").stat().st_mode & 0o111


def test_a_push_that_is_repeated_changes_nothing(origin, mirror):
    head = origin.commit("one", a="1\n")
    mirror.fetch()
    sha = _commit(mirror, head, a="2\n")
    push_commit(mirror, sha, "main", head)
    push_commit(mirror, sha, "main", head)
    assert origin.read("main") == sha


def test_nothing_is_pushed_onto_a_moved_head(origin, mirror):
    head = origin.commit("one", a="1\n")
    mirror.fetch()
    sha = _commit(mirror, head, a="2\n")
    moved = origin.commit("meanwhile", a="3\n")
    with pytest.raises(GitError, match="has moved on") as refused:
        push_commit(mirror, sha, "main", head)
    assert refused.value.kind == "moved"
    assert origin.read("main") == moved


def test_a_new_branch_does_not_overwrite_one_that_is_there(origin, mirror):
    head = origin.commit("one", a="1\n")
    mirror.fetch()
    sha = _commit(mirror, head, a="2\n")
    push_commit(mirror, sha, "patchgen/new", "")
    assert origin.read("patchgen/new") == sha
    with pytest.raises(GitError) as refused:
        push_commit(mirror, _commit(mirror, head, a="4\n"), "patchgen/new", "")
    assert refused.value.kind == "moved"


def test_a_rule_of_the_forge_is_told_as_such(origin, mirror):
    head = origin.commit("one", a="1\n")
    hook = origin.bare / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'GH006: protected branch'; exit 1\n")
    hook.chmod(0o755)
    mirror.fetch()
    with pytest.raises(GitError, match="rules for this branch") as refused:
        push_commit(mirror, _commit(mirror, head, a="2\n"), "main", head)
    assert refused.value.kind == "declined"


@pytest.mark.parametrize(
    "path", ["../a", "/a", "a//b", ".git/hooks/x", "x/.GIT/config", "link/a", "link", "a/b", "folder"]
)
def test_a_path_that_leads_elsewhere_is_not_written(origin, mirror, path):
    (origin.clone / "link").symlink_to("/tmp")
    head = origin.commit("one", a="1\n", folder__x="1\n")
    mirror.fetch()
    with pytest.raises(GitError) as refused:
        commit_files(mirror, head, {path: b"x"}, "m", _ADA, _SERVICE, _NOW)
    assert refused.value.kind == "path"


def test_a_commit_becomes_a_patch_that_applies(origin, mirror, tmp_path):
    head = origin.commit("one", a="1\n")
    mirror.fetch()
    patch = tmp_path / "x.patch"
    patch.write_bytes(make_patch(mirror, head, _commit(mirror, head, a="2\n", b__c="3\n")))
    origin.run("am", "-q", str(patch))
    assert (origin.clone / "a").read_text() == "2\n"
    assert (origin.clone / "b" / "c").read_text() == "3\n"


def test_a_push_over_http_carries_the_token(origin, git_server, tmp_path):
    head = origin.commit("one", a="1\n")
    mirror = Mirror(tmp_path / "m.git", Remote(f"{git_server.url}/origin.git", git_server.token))
    mirror.fetch()
    sha = _commit(mirror, head, a="2\n")
    push_commit(mirror, sha, "main", head)
    assert subprocess.check_output(["git", "-C", origin.bare, "show", "main:a"]) == b"2\n"
    assert all("Basic" in sent for sent in git_server.authorizations)
