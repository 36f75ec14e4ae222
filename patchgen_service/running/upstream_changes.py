"""Which of upstream's changes are behind what a release asks for: from a clone of transformers, where there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from patchgen_service.git.command import run_git
from patchgen_service.isolation.box import Box

_TRUSTING = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
"""Has Git read a clone that is another user's, as the history is in a box."""
_FETCH_SECONDS = 600.0


def add_history(box: Box, command: Sequence[str], history: Path | None) -> tuple[Box, list[str]] | None:
    """A box that sees a clone, and the command of an upgrade that asks it; None where there is none.

    The upgrade fails where the clone lacks a release.
    """
    if history is None or not history.is_dir():
        return None
    seeing = replace(box, readable={**box.readable, history: history}, environment={**box.environment, **_TRUSTING})
    return seeing, [*command, "--history", str(history)]


def describe_change(subject: str, pull_request: int | None) -> str:
    """A commit of upstream's, in words."""
    return f"upstream's {f'#{pull_request} ' if pull_request is not None else ''}{subject}"


def fetch_history(history: Path) -> None:
    """Have a clone get the tags of new releases.

    Raises:
        GitError: it cannot, such as one that this user may not write to.
    """
    run_git(["-C", str(history), "fetch", "--tags", "--quiet"], seconds=_FETCH_SECONDS)
