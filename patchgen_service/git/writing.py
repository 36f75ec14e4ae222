"""Commits that the service makes: files onto exactly one commit, pushed onto exactly that head."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from patchgen_service.git.command import run_git
from patchgen_service.git.errors import GitError
from patchgen_service.git.mirror import Mirror, branch_ref, check_sha


@dataclass(frozen=True)
class Author:
    """Who stands in a commit."""

    name: str
    email: str


def commit_files(
    mirror: Mirror,
    parent: str,
    files: Mapping[str, bytes | None],
    message: str,
    author: Author,
    committer: Author,
    when: datetime,
) -> str:
    """Make a commit of ``parent`` with other files, in the mirror alone; returns its id.

    The same arguments give the same commit, so that repeating it after a crash changes nothing.

    Args:
        files: the new content by path from the repository's root; None removes the file.

    Raises:
        GitError: ``path`` where a path leads out of the repository, through a link, or to something that is no file.
    """
    modes = {path: _find_mode(mirror, parent, path) for path in sorted(files)}
    with tempfile.TemporaryDirectory(prefix="patchgen-index-") as place:
        environment = {"GIT_INDEX_FILE": os.path.join(place, "index"), **_identity(author, committer, when)}

        def run(*arguments: str, stdin: bytes = b"") -> str:
            output = run_git([f"--git-dir={mirror.folder}", *arguments], mirror.remote, stdin, environment).stdout
            return output.decode().strip()

        run("read-tree", check_sha(parent))
        entries = []
        for path, mode in modes.items():
            content = files[path]
            blob = run("hash-object", "-w", "--no-filters", "--stdin", stdin=content) if content is not None else ""
            entries.append(f"{mode} {blob}\t{path}\0" if blob else f"0 {'0' * len(parent)}\t{path}\0")
        run("update-index", "-z", "--index-info", stdin="".join(entries).encode())
        tree = run("write-tree", "--missing-ok")
        return run("commit-tree", tree, "-p", parent, "-F", "-", stdin=message.encode())


def push_commit(mirror: Mirror, sha: str, branch: str, expected: str) -> None:
    """Push a commit to a branch that is at ``expected`` on the other side; empty for a branch that is not there yet.

    That it is there already is fine. The other side compares and moves in one step.

    Raises:
        GitError: ``moved`` when the branch is elsewhere, ``declined`` when a rule forbids it.
    """
    ref = branch_ref(branch)
    lease = f"--force-with-lease={ref}:{check_sha(expected) if expected else ''}"
    arguments = ["push", "--quiet", "--no-verify", lease, mirror.remote.url, f"{check_sha(sha)}:{ref}"]
    try:
        run_git([f"--git-dir={mirror.folder}", *arguments], mirror.remote, seconds=300)
    except GitError:
        if mirror.ask_head(branch) != sha:  # what was pushed before a crash, or what a broken line hid
            raise


def make_patch(mirror: Mirror, parent: str, sha: str) -> bytes:
    """A commit as ``git am`` takes it."""
    arguments = ["format-patch", "--stdout", "--no-signature", "--binary", f"{check_sha(parent)}..{check_sha(sha)}"]
    return run_git([f"--git-dir={mirror.folder}", *arguments], mirror.remote).stdout


def _find_mode(mirror: Mirror, sha: str, path: str) -> str:
    """The mode that a file gets: the one it has; ordinary for a new one."""
    for place in (*_parents(path), path):
        arguments = ["ls-tree", "-z", "--full-tree", check_sha(sha), "--", place]
        entry = run_git([f"--git-dir={mirror.folder}", *arguments], mirror.remote).stdout.decode("utf-8", "replace")
        if not entry:
            return "100644"
        mode = entry.split(" ", 1)[0]
        if mode not in (("040000",) if place != path else ("100644", "100755")):
            raise GitError("path", path, sentence=f"{place} is no {'file' if place == path else 'folder'} there.")
    return mode


def _parents(path: str) -> Iterator[str]:
    parts = path.split("/")
    if any(part in ("", ".", "..") or part.lower() == ".git" or "\0" in part for part in parts):
        raise GitError("path", path, sentence=f"{path!r} is no path in a repository.")
    for count in range(1, len(parts)):
        yield "/".join(parts[:count])


def _identity(author: Author, committer: Author, when: datetime) -> dict[str, str]:
    moment = f"{int(when.timestamp())} +0000"
    return {
        "GIT_AUTHOR_NAME": author.name,
        "GIT_AUTHOR_EMAIL": author.email,
        "GIT_AUTHOR_DATE": moment,
        "GIT_COMMITTER_NAME": committer.name,
        "GIT_COMMITTER_EMAIL": committer.email,
        "GIT_COMMITTER_DATE": moment,
    }
