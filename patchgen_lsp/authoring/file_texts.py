"""What files hold, beside what they are to hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from patchgen_core.files import read_text


def pair_texts(texts: Mapping[Path, str]) -> dict[Path, tuple[str, str]]:
    """For each file that is there and is to change, its text and the new one; a PatchgenError where it cannot be
    read."""
    pairs = {path: (read_text(path), text) for path, text in texts.items()}
    return {path: (old, new) for path, (old, new) in pairs.items() if old is not None and old != new}
