"""What a check that runs a model says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from patchgen_core.checks.tables import Table
from patchgen_core.errors import Problem


@dataclass(frozen=True)
class CheckVerdict:
    """The outcome of one check.

    Attributes:
        problems: what is wrong; the check passes when there are none.
        skipped: why the check says nothing here; empty when it does.
        notes: what else a reader should know, a line each.
        figures: measurements by name.
        warnings: what may be wrong, and fails nothing.
        tables: the figures behind the problems.
        unused: allowances that nothing came of.
    """

    problems: tuple[Problem, ...] = ()
    skipped: str = ""
    notes: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[Problem, ...] = ()
    tables: tuple[Table, ...] = ()
    unused: tuple[Problem, ...] = ()
