"""What git says about a project's files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from patchgen_core.errors import Location, PatchgenError, Problem

_ALLOW = "commit or stash first, or pass --allow-dirty"
_RENAMED = ("R", "C")
_UNKNOWN = "??"
_WRITTEN = (".py", ".diff")


def refuse_dirty(root: Path) -> None:
    """Make sure that everything below a folder is committed, so that git can take back what is written.

    Raises:
        PatchgenError: a file is not, nor ignored, nor a report or the like that git does not know; or git cannot tell.
    """
    changed = uncommitted_files(root)
    if changed:
        message = "this file has uncommitted changes"
        hints = [""] * (len(changed) - 1) + [f"You could not tell them from what is written: {_ALLOW}."]
        problems = [Problem(message, Location(str(path)), hint) for path, hint in zip(changed, hints)]
        raise PatchgenError.from_problems(problems)


def uncommitted_files(root: Path) -> list[Path]:
    """The files below a folder whose contents are not committed; of unknown ones, those that may be written.

    Raises:
        PatchgenError: there is no git, or the folder is in none of its work trees.
    """
    top = Path(_git(root, "rev-parse", "--show-toplevel").rstrip("\n"))
    entries = iter(_git(root, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--", ".").split("\0"))
    paths = []
    for entry in entries:
        if entry:
            state, path = entry[:2], top / entry[3:]
            if state != _UNKNOWN or path.suffix in _WRITTEN:
                paths.append(path)
            if any(letter in _RENAMED for letter in state):
                next(entries, None)  # where it was before
    return sorted(paths)


def _git(root: Path, *arguments: str) -> str:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], env=environment, capture_output=True, check=False)
    except OSError as error:
        raise _untold(root, f"git cannot be run ({error.strerror})") from None
    if done.returncode:
        lines = os.fsdecode(done.stderr).strip().splitlines() or [f"exit code {done.returncode}"]
        raise _untold(root, lines[0].removeprefix("fatal: "))
    return os.fsdecode(done.stdout)


def _untold(root: Path, reason: str) -> PatchgenError:
    message = f"git cannot say which files are committed: {reason}"
    hint = "Without it you cannot undo what is written: keep a copy, and pass --allow-dirty."
    return PatchgenError(message, Location(str(root)), hint)
