"""A generated module beside upstream's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Sides:
    """Files that show what a config changes.

    Attributes:
        diff: the unified diff of the other two.
        upstream: upstream's module as it would be generated without a patch.
        generated: what the config makes now.
        line: the line of ``generated``, from 0, that is to be shown first.
    """

    diff: Path
    upstream: Path
    generated: Path
    line: int | None
