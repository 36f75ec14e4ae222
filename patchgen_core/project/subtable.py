"""Reading a table below ``[tool.patchgen]``, such as ``[tool.patchgen.parity]``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from patchgen_core.errors import Location, PatchgenError, Problem, did_you_mean

Mismatch = tuple[str, str]
"""What a value must be, and a hint."""


def check_subtable(
    name: str,
    table: Any,
    keys: Sequence[str],
    find_mismatch: Callable[[str, Any], Mismatch | None],
    at: Callable[[str], Location],
) -> None:
    """Raise a PatchgenError when ``table`` is no table, or has unknown keys or wrong values; ``at`` says where a key
    stands."""
    if not isinstance(table, Mapping):
        raise PatchgenError(f"[tool.patchgen] {name} must be a table", at(name))
    problems = []
    for key, value in table.items():
        if key not in keys:
            hint = did_you_mean(key, keys) or f"Known keys: {', '.join(keys)}."
            problems.append(Problem(f"[tool.patchgen.{name}] has no key '{key}'", at(key), hint))
        elif mismatch := find_mismatch(key, value):
            message = f"[tool.patchgen.{name}] {key} must be {mismatch[0]}, not {value!r}"
            problems.append(Problem(message, at(key), mismatch[1]))
    if problems:
        raise PatchgenError.from_problems(problems)


def find_reasons_mismatch(value: Any, example: str) -> Mismatch | None:
    """The mismatch of what is to be a table of what is left out, each with its reason; None when it is that."""
    fits = isinstance(value, Mapping) and all(isinstance(why, str) and why.strip() for why in value.values())
    return None if fits else (f"a table of reasons, such as {example}", "")
