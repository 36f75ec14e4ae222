"""What a run has found out that is kept when it ends, if everything is still what it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchgen_core.checks.kept.closure import Closure
from patchgen_core.checks.result import CheckResult
from patchgen_core.config.input_recording import Input


@dataclass(frozen=True)
class ToKeep:
    """A result that is to be kept, or names of items, with what it depends on beside the closure.

    Attributes:
        made: when, if another machine made it.
        left_out: inputs in whose place ``declared`` is kept.
    """

    path: Path
    item: str
    closure: Closure
    inputs: Mapping[Input, Any]
    seconds: float = 0.0
    results: tuple[CheckResult, ...] = ()
    names: Mapping[str, tuple[str, ...]] | None = None
    made: float = 0.0
    left_out: frozenset[Input] = frozenset()
    declared: Mapping[Input, Any] = field(default_factory=dict)
