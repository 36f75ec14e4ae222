"""``[tool.patchgen.sharded]``: what a project says of models that ranks share. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from patchgen_core.errors import Location, did_you_mean
from patchgen_core.project.meshes import NAMES
from patchgen_core.project.parity_settings import HEAD_MARK
from patchgen_core.project.subtable import Mismatch, check_subtable, find_reasons_mismatch

KEYS = ("meshes", "leave_out", "tolerance", "time_limit")
TOLERANCE = 4.0
"""How many times the error of eager ranks may be off, unless a project says otherwise."""
TIME_LIMIT = 120.0
"""Seconds that the ranks of one item may take, unless a project says otherwise."""


@dataclass(frozen=True)
class ShardedSettings:
    """A project's settings for models that ranks share.

    Attributes:
        meshes: names of meshes, for all configs that offer them; None for all of those configs that use the run time
            of this package, and none of others.
        leave_out: pairs of what is not compared and why: a pattern of names of heads, or one of heads and one of
            meshes, such as ``Qwen3_5*::*sp2``.
        tolerance: how many times the error of eager ranks may be off.
        time_limit: seconds that the ranks of one item may take.
    """

    meshes: tuple[str, ...] | None = None
    leave_out: tuple[tuple[str, str], ...] = ()
    tolerance: float = TOLERANCE
    time_limit: float = TIME_LIMIT

    def why_left_out(self, head: str, mesh: str) -> str:
        """Why a head is not compared on a mesh; empty when it is."""
        names = (head, f"{head}{HEAD_MARK}{mesh}")
        return next((why for pattern, why in self.leave_out if any(fnmatchcase(n, pattern) for n in names)), "")


def read_sharded_settings(table: Any, at: Callable[[str], Location]) -> ShardedSettings:
    """The settings under ``[tool.patchgen.sharded]``; ``at`` says where a key stands.

    A PatchgenError when it is no table, a key is unknown, or a value is of the wrong type.
    """
    check_subtable("sharded", table, KEYS, _find_mismatch, at)
    meshes = table.get("meshes")
    return ShardedSettings(
        tuple(meshes) if meshes is not None else None,
        tuple(table.get("leave_out", {}).items()),
        float(table.get("tolerance", TOLERANCE)),
        float(table.get("time_limit", TIME_LIMIT)),
    )


def _find_mismatch(key: str, value: Any) -> Mismatch | None:
    """What a value must be, and a hint, when it is not that."""
    if key == "meshes":
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            return f"a list of some of {', '.join(NAMES)}", ""
        odd = next((name for name in value if name not in NAMES), None)
        return (f"a list of some of {', '.join(NAMES)}", did_you_mean(odd, NAMES)) if odd is not None else None
    if key == "leave_out":
        return find_reasons_mismatch(value, '{ "Qwen3_5*::*sp2" = "it needs the whole" }')
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")
    return None if is_number else ("a positive number", "")
