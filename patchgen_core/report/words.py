"""Phrases that all reports have."""

from __future__ import annotations

import time
from pathlib import Path

from patchgen_core.errors import display_path

ABSORB = "Run 'patchgen absorb' to turn what was edited by hand into patches instead."
"""What to do about a hand edit that is wanted."""


def quantity(number: int, word: str) -> str:
    """A number of things: ``1 patch``, ``2 patches``, ``0 configs``."""
    return f"{number} {word}{'' if number == 1 else 'es' if word.endswith('ch') else 's'}"


def state_count(number: int, state: str) -> str:
    """How many are in a state: ``2 clean``, ``2 errors``."""
    return quantity(number, state) if state == "error" else f"{number} {state}"


_UNITS = (("day", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def age(moment: float) -> str:
    """How long ago a moment was, in seconds since 1970, in its largest unit: ``2 h ago``; what lies ahead is now."""
    seconds = max(int(time.time() - moment), 0)
    unit, size = next((each for each in _UNITS if seconds >= each[1]), _UNITS[-1])
    number = seconds // size
    return f"{number} {unit}{'s' * (unit == 'day' and number != 1)} ago"


def completed_line(path: Path) -> str:
    """That the imports of a file for type checkers were written."""
    return f"wrote    {display_path(path)} (imports under TYPE_CHECKING)"
