"""What ``patchgen init`` adds to a file, or why it adds nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Addition:
    """Lines for a file of the repository.

    Attributes:
        part: what of the gate they are: ``table``, ``ruff``, ``pre-commit`` or ``workflow``.
        lines: what is added.
        text: the whole file with them; empty where they are not written.
        reason: why they are not: they are there, or have no place that can be told for sure.
        is_there: whether the file has them.
    """

    part: str
    path: Path
    lines: str = ""
    text: str = ""
    reason: str = ""
    is_there: bool = False


def append(text: str, lines: str) -> str:
    """A text with lines at its end, behind an empty one; its kind of line ends stays."""
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text else newline if text.endswith("\n") else 2 * newline
    return text + gap + lines.replace("\n", newline)
