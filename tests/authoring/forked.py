"""Forks of the installed Qwen3, made by changing its text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from patchgen_core.upstream.module import find_upstream
from tests.conftest import Workspace
from tools.releases import FOLDER

QWEN3 = "transformers.models.qwen3.modeling_qwen3"
GUARD = "        # empty batches come at the end of an epoch\n        if x.numel() == 0:\n            return x\n"
FORWARD = "        down_proj = self.down_proj("


def fork_of(text: str, changes: Sequence[tuple[str, str]]) -> str:
    """A text with changes, each of which has to be of something that is there."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def write_fork(work: Workspace, *changes: tuple[str, str], path: str = "forks/modeling_qwen3.py") -> Path:
    """A fork of the installed Qwen3 in a project, with the relative imports that upstream has."""
    file = work.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(fork_of(find_upstream(QWEN3).path.read_text(encoding="utf-8"), changes), encoding="utf-8")
    return file


def link_releases(cache: Path) -> None:
    """Let a cache have the releases that the tests keep."""
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "releases").symlink_to(FOLDER, target_is_directory=True)
