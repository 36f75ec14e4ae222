"""``[tool.patchgen.severity]``: how much findings weigh, by rule or check, and by config or folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from patchgen_core.errors import Location, PatchgenError, Problem, did_you_mean

ERROR, WARNING, OFF = LEVELS = ("error", "warning", "off")
"""What a finding can weigh: it makes a run red, it is only shown, nobody looks for it."""
EVERYTHING = "ALL"
_SELECTOR = re.compile(r"[A-Za-z]\w*")


@dataclass(frozen=True)
class Severity:
    """What findings weigh.

    Attributes:
        selector: a rule's code, the beginning of codes, a check's name, or ``ALL``.
        level: one of :data:`LEVELS`.
        pattern: configs that it is limited to: a pattern of dotted names or of paths, or a folder; empty for all.
    """

    selector: str
    level: str
    pattern: str = ""

    def is_about(self, code: str, check: str) -> bool:
        """Whether it is about what a rule, or a check without a rule (an empty code), finds."""
        return self.selector in (EVERYTHING, check) or bool(code and code.startswith(self.selector))

    def fits(self, names: tuple[str, ...]) -> bool:
        """Whether it is for a config, given its dotted name and its path."""
        return not self.pattern or fits_pattern(self.pattern, names)


def fits_pattern(pattern: str, names: tuple[str, ...]) -> bool:
    """Whether a pattern fits one of a config's names, or a folder or package that it lies in."""
    stem = pattern.rstrip("/.")
    return any(name.startswith((f"{stem}/", f"{stem}.")) or fnmatchcase(name, pattern) for name in names)


def read_severity(table: Any, at: Callable[[str], Location]) -> tuple[Severity, ...]:
    """The entries of ``[tool.patchgen.severity]``; ``at`` says where a key stands.

    A PatchgenError when it is no table, or a value is neither a level nor a table of levels.
    """
    if not isinstance(table, Mapping):
        raise PatchgenError("[tool.patchgen] severity must be a table", at("severity"))
    entries, problems = list[Severity](), list[Problem]()
    for key, value in table.items():
        is_selector = isinstance(value, str) and _SELECTOR.fullmatch(key) is not None
        levels = value if isinstance(value, Mapping) else {key if is_selector else EVERYTHING: value}
        for selector, level in levels.items():
            if level not in LEVELS:
                message = f"[tool.patchgen.severity] {key}: {level!r} is no level"
                hint = did_you_mean(str(level), LEVELS) or f"Levels: {', '.join(LEVELS)}."
                problems.append(Problem(message, at(key), hint))
            entries.append(Severity(selector, str(level), "" if is_selector else key))
    if problems:
        raise PatchgenError.from_problems(problems)
    return tuple(entries)
