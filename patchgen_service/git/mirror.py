"""A bare mirror of a repository: its branches and history here, its files fetched when they are needed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from subprocess import CompletedProcess

from patchgen_service.git.command import Remote, run_git
from patchgen_service.git.errors import GitError

_SHA = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_BAD_NAME = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)|^[./]|[./]$|^@$|^-")
_FIELDS = "%H%x00%P%x00%an%x00%ae%x00%cI%x00%B%x00"
_FETCH_SECONDS = 900


@dataclass(frozen=True)
class CommitInfo:
    """A commit: the whole ``message``, and when it was ``committed``."""

    sha: str
    parents: tuple[str, ...]
    author: str
    email: str
    committed: datetime
    message: str

    @property
    def subject(self) -> str:
        """The first line of its message."""
        return self.message.partition("\n")[0]

    def read_trailer(self, name: str) -> str:
        """The value of a ``Name: value`` line at the end of its message; empty for none."""
        last = self.message.strip().rpartition("\n\n")[2]
        return next((line[len(name) + 2 :] for line in last.splitlines() if line.startswith(f"{name}: ")), "")


def check_sha(sha: str) -> str:
    """``sha``, when it can be a commit's."""
    if not _SHA.fullmatch(sha):
        raise GitError("commit", repr(sha), sentence="That is not a commit id.")
    return sha


def branch_ref(branch: str) -> str:
    """The full name of a branch."""
    if not branch or _BAD_NAME.search(branch):
        raise GitError("branch", repr(branch), sentence="No branch can have that name.")
    return f"refs/heads/{branch}"


@dataclass(frozen=True)
class Mirror:
    """The mirror of ``remote`` in ``folder``, made when something is first fetched into it.

    One process at a time changes it. The lock is git's own too, so that a git that outlives a killed service is
    waited for. What a kill left half done is removed with the next fetch.
    """

    folder: Path
    remote: Remote

    def fetch(self, refs: Sequence[str] = ()) -> None:
        """Bring its branches to where they are now, and get other ``refs``, such as ``refs/pull/5/head``.

        The blobs of files stay away until they are needed, where the other side can do that. A branch that was
        deleted is deleted here; commits stay.
        """
        mapped = [f"+{_check_ref(ref)}:{_local(ref)}" for ref in refs]
        with self._lock() as held:
            _remove_stale_locks(self.folder)
            self._create(held)
            options = ["--prune", "--force", "--no-tags", "--quiet", "--filter=blob:none", "--no-write-fetch-head"]
            specs = ["+refs/heads/*:refs/heads/*"]
            self._run("fetch", *options, "origin", *specs, held=held, seconds=_FETCH_SECONDS)
            if mapped:  # pruning would take what other pull requests left
                self._run("fetch", *options[1:], "origin", *mapped, held=held, seconds=_FETCH_SECONDS)

    def read_heads(self) -> dict[str, str]:
        """The commit of each branch, as of the last fetch."""
        output = self._run("for-each-ref", "--format=%(refname:lstrip=2)%00%(objectname)", "refs/heads").stdout
        pairs = (line.split("\0") for line in output.decode("utf-8", "replace").splitlines())
        return dict(pairs)

    def resolve(self, branch: str) -> str:
        """The commit of a branch, as of the last fetch; GitError ``branch`` where there is none."""
        return self._resolve(branch_ref(branch))

    def resolve_ref(self, ref: str) -> str:
        """The commit of a reference that :meth:`fetch` was given."""
        return self._resolve(_local(_check_ref(ref)))

    def ask_head(self, branch: str) -> str:
        """Where a branch is at this moment, asked of the other side; empty when it is not there."""
        output = run_git(["ls-remote", "--quiet", self.remote.url, branch_ref(branch)], self.remote).stdout.decode()
        rows = (line.split("\t") for line in output.splitlines())
        return next((sha for sha, name in rows if name == branch_ref(branch)), "")

    def has_commit(self, sha: str) -> bool:
        """Whether the commit is here: only then can it be checked out."""
        done = self._run("cat-file", "-t", check_sha(sha), accepted=(0, 1, 128), local=True)
        return done.stdout.strip() == b"commit"

    def read_commit(self, sha: str) -> CommitInfo:
        """A commit; GitError ``commit`` when it is gone."""
        return self.read_log(sha, limit=1)[0]

    def read_log(
        self, until: str, since: str = "", paths: Sequence[str] = (), limit: int = 100
    ) -> tuple[CommitInfo, ...]:
        """Commits from ``until`` backwards, newest first, without those that ``since`` holds.

        Args:
            paths: only commits that changed one of these files or folders.
        """
        self._require(until)
        exclude = [f"^{check_sha(since)}"] if since else []
        arguments = ["log", f"--max-count={limit}", f"--format=tformat:{_FIELDS}", until, *exclude, "--", *paths]
        fields = self._run(*arguments).stdout.decode("utf-8", "replace").split("\0")
        return tuple(_read_info(fields[at : at + 6]) for at in range(0, len(fields) - 6, 6))

    def is_ancestor(self, ancestor: str, sha: str) -> bool:
        """Whether ``sha`` came out of ``ancestor``, or is it; a commit that is gone is nobody's ancestor."""
        arguments = ["merge-base", "--is-ancestor", check_sha(ancestor), check_sha(sha)]
        return self._run(*arguments, accepted=(0, 1, 128), local=True).returncode == 0

    def find_merge_base(self, one: str, other: str) -> str:
        """The commit where two lines of history parted; empty where they have nothing in common."""
        done = self._run("merge-base", check_sha(one), check_sha(other), accepted=(0, 1, 128), local=True)
        return done.stdout.decode().strip() if done.returncode == 0 else ""

    def list_changes(self, old: str, new: str) -> tuple[str, ...]:
        """Paths of the files that differ between two commits."""
        output = self._run(
            "diff-tree", "-r", "-z", "--no-renames", "--name-only", check_sha(old), check_sha(new)
        ).stdout
        return tuple(path for path in output.decode("utf-8", "replace").split("\0") if path)

    def read_file(self, sha: str, path: str) -> bytes | None:
        """A file as it was in a commit; None where there is none."""
        entry = self._run("ls-tree", "-z", "--full-tree", check_sha(sha), "--", path.strip("/")).stdout
        if not entry.startswith(b"100"):
            return None
        return self._run("cat-file", "blob", entry.split()[2].decode(), remote=True).stdout

    def add_worktree(self, sha: str, folder: Path) -> None:
        """Write all files of a commit into a new ``folder``.

        It gets no ``.git``: nothing that its code does leads back to the mirror. Submodules stay empty.
        """
        self._require(sha)
        folder.mkdir(parents=True)
        try:
            with tempfile.TemporaryDirectory(prefix="patchgen-index-") as place:
                environment = {"GIT_INDEX_FILE": os.path.join(place, "index"), "GIT_WORK_TREE": str(folder)}
                arguments = ("--literal-pathspecs", "checkout", "--force", sha, "--", ".")
                self._run(*arguments, environment=environment, remote=True, seconds=_FETCH_SECONDS)
        except BaseException:
            self.remove_worktree(folder)
            raise

    def remove_worktree(self, folder: Path) -> None:
        """Remove a worktree, with whatever was written into it; that it is gone already is fine."""
        remove_tree(folder)

    def _run(
        self,
        *arguments: str,
        held: Sequence[int] = (),
        remote: bool = False,
        local: bool = False,
        environment: dict[str, str] | None = None,
        accepted: Sequence[int] = (0,),
        seconds: float = 120,
        stdin: bytes = b"",
    ) -> CompletedProcess[bytes]:
        """Run git in the mirror: with credentials for what may fetch, and never fetching where it is ``local``."""
        needs_remote = remote or arguments[0] in ("fetch", "push")
        extra = {"GIT_NO_LAZY_FETCH": "1"} if local else {}
        return run_git(
            [f"--git-dir={self.folder}", *arguments],
            self.remote if needs_remote else None,
            stdin,
            {**extra, **(environment or {})},
            seconds,
            held,
            accepted,
        )

    def _resolve(self, ref: str) -> str:
        if not self.folder.is_dir():
            raise GitError("branch", ref, self.remote.title)
        done = self._run("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", accepted=(0, 1, 128), local=True)
        if done.returncode:
            raise GitError(
                "branch", ref, self.remote.title, f"There is no {ref.removeprefix('refs/heads/')} any more."
            )
        return done.stdout.decode().strip()

    def _require(self, sha: str) -> None:
        if not self.folder.is_dir() or not self.has_commit(sha):
            raise GitError("commit", sha, self.remote.title)

    def _create(self, held: Sequence[int]) -> None:
        if not self.folder.is_dir():
            fresh = self.folder.with_name(f"{self.folder.name}.new")
            remove_tree(fresh)
            run_git(["init", "--quiet", "--bare", str(fresh)], held=held)
            for key, value in (("promisor", "true"), ("partialclonefilter", "blob:none"), ("tagOpt", "--no-tags")):
                run_git([f"--git-dir={fresh}", "config", f"remote.origin.{key}", value], held=held)
            fresh.rename(self.folder)
        self._run("config", "remote.origin.url", self.remote.url, held=held)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[tuple[int]]:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder.with_name(f"{self.folder.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield (descriptor,)
        finally:
            os.close(descriptor)


def remove_tree(folder: Path) -> None:
    """Remove a folder, also where its code took the right to do so away from folders in it."""
    for place, names, _ in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if not os.path.islink(path):
                with contextlib.suppress(OSError):
                    os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _remove_stale_locks(folder: Path) -> None:
    """Remove what a git that was killed left; nobody else changes the mirror while its lock is held."""
    for place in (folder, folder / "refs"):
        for path in place.rglob("*.lock") if place.name == "refs" else place.glob("*.lock"):
            path.unlink(missing_ok=True)
    for path in folder.glob("objects/pack/tmp_*"):
        path.unlink(missing_ok=True)


def _check_ref(ref: str) -> str:
    if not ref.startswith("refs/") or _BAD_NAME.search(ref):
        raise GitError("branch", repr(ref), sentence="No reference can have that name.")
    return ref


def _local(ref: str) -> str:
    return f"refs/patchgen/{ref.removeprefix('refs/')}"


def _read_info(fields: Sequence[str]) -> CommitInfo:
    sha, parents, author, email, committed, message = fields
    moment = datetime.fromisoformat(committed.replace("Z", "+00:00")).astimezone(timezone.utc)
    return CommitInfo(sha.strip(), tuple(parents.split()), author, email, moment, message.strip())
