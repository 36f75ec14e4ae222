"""``[tool.patchgen.sharded]``: what a project says of models that ranks share. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from patchgen_core.errors import Location, PatchgenError, Problem, did_you_mean
from patchgen_core.project.meshes import NAMES
from patchgen_core.project.parity_settings import HEAD_MARK

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
    if not isinstance(table, Mapping):
        raise PatchgenError("[tool.patchgen] sharded must be a table", at("sharded"))
    problems = []
    for key, value in table.items():
        if key not in KEYS:
            hint = did_you_mean(key, KEYS) or f"Known keys: {', '.join(KEYS)}."
            problems.append(Problem(f"[tool.patchgen.sharded] has no key '{key}'", at(key), hint))
        elif wrong := _wrong(key, value):
            message = f"[tool.patchgen.sharded] {key} must be {wrong[0]}, not {value!r}"
            problems.append(Problem(message, at(key), wrong[1]))
    if problems:
        raise PatchgenError.from_problems(problems)
    meshes = table.get("meshes")
    return ShardedSettings(
        tuple(meshes) if meshes is not None else None,
        tuple(table.get("leave_out", {}).items()),
        float(table.get("tolerance", TOLERANCE)),
        float(table.get("time_limit", TIME_LIMIT)),
    )


def _wrong(key: str, value: Any) -> tuple[str, str] | None:
    """What a value must be, and a hint, when it is not that."""
    if key == "meshes":
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            return f"a list of some of {', '.join(NAMES)}", ""
        odd = next((name for name in value if name not in NAMES), None)
        return (f"a list of some of {', '.join(NAMES)}", did_you_mean(odd, NAMES)) if odd is not None else None
    if key == "leave_out":
        fits = isinstance(value, Mapping) and all(isinstance(why, str) and why.strip() for why in value.values())
        return None if fits else ('a table of reasons, such as { "Qwen3_5*::*sp2" = "it needs the whole" }', "")
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")
    return None if is_number else ("a positive number", "")
