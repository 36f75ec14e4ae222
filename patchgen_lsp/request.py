"""What the server asks the process that analyses configs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REST = "rest"
"""The kind of what is asked where nobody asks anything: the process tidies up."""


TIDY = "tidy"
"""The kind of what is asked behind an answer that nobody waits behind: the process tidies up what has just come."""


@dataclass(frozen=True)
class Request:
    """A question about a file.

    Attributes:
        kind: the question, one of those that :mod:`patchgen_lsp.analysis.answering` knows.
        texts: unsaved texts of files, which stand for what is on disk.
        units: how the editor counts the characters of a line: ``utf-8``, ``utf-16`` or ``utf-32``.
        line: where the cursor is, from 0.
        column: characters before the cursor, counted as Python does.
        more: what else the question needs.
    """

    kind: str
    path: Path
    texts: Mapping[Path, str] = field(default_factory=dict)
    units: str = "utf-16"
    line: int = 0
    column: int = 0
    more: Mapping[str, Any] = field(default_factory=dict)
