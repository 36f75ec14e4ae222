"""``[tool.patchgen.parity]``: what a project says of its parity checks. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen_core.errors import Location, closest, did_you_mean
from patchgen_core.project.subtable import Mismatch, check_subtable, find_reasons_mismatch

DTYPES = ("float32", "bfloat16")
"""The dtypes that parity runs models in."""
QUICK, STANDARD, THOROUGH = LEVELS = ("quick", "standard", "thorough")
"""How much is varied beside training steps: nothing, what the patches may matter to, everything."""
HEAD_MARK = "::"
"""Between a pattern of heads and what is said of them."""
KEYS = ("toy_root", "tolerance", "dtypes", "batches", "leave_out", "level")


@dataclass(frozen=True)
class ParitySettings:
    """A project's settings for parity.

    Attributes:
        toy_root: absolute path of the folder of toy configurations, ``<model_type>_toy/config.json``.
        tolerance: pairs of what is tolerated and the multiple of the error of eager: ``float32``, ``bfloat16``, an
            implementation such as ``liger_kernel``, or both as in ``liger_kernel-bfloat16``; before it may stand a
            pattern of heads, as in ``*ForCausalLM::eager``.
        batches: builders of toy batches, each ``package.module:function``.
        leave_out: pairs of what is not compared and why: a pattern of names of heads, such as
            ``*ForQuestionAnswering``, or one of heads and one of batches, such as ``*::trainer``.
        level: how much is varied beside training steps, one of :data:`LEVELS`.
    """

    toy_root: Path | None = None
    tolerance: tuple[tuple[str, float], ...] = ()
    dtypes: tuple[str, ...] = DTYPES
    batches: tuple[str, ...] = ()
    leave_out: tuple[tuple[str, str], ...] = ()
    level: str = STANDARD

    @property
    def head_patterns(self) -> tuple[tuple[str, str], ...]:
        """The patterns of names of heads, each with the key that has it."""
        keys = [("leave_out", setting) for setting, _ in self.leave_out]
        keys += [("tolerance", setting) for setting, _ in self.tolerance if HEAD_MARK in setting]
        return tuple((setting.partition(HEAD_MARK)[0], key) for key, setting in keys)


def read_settings(table: Any, root: Path, at: Callable[[str], Location]) -> ParitySettings:
    """The settings under ``[tool.patchgen.parity]``; ``at`` says where a key stands, ``root`` where paths start.

    A PatchgenError when it is no table, a key is unknown, or a value is of the wrong type.
    """
    check_subtable("parity", table, KEYS, lambda key, value: _find_mismatch(key, value, root), at)
    toy_root = table.get("toy_root")
    tolerance = tuple((key, float(value)) for key, value in table.get("tolerance", {}).items())
    return ParitySettings(
        root / toy_root if toy_root is not None else None,
        tolerance,
        tuple(table.get("dtypes", DTYPES)),
        tuple(table.get("batches", ())),
        tuple(table.get("leave_out", {}).items()),
        table.get("level", STANDARD),
    )


def _find_mismatch(key: str, value: Any, root: Path) -> Mismatch | None:
    """What a value must be, and a hint, when it is not that."""
    if key == "toy_root":
        fits = isinstance(value, str) and bool(value) and (root / value).is_dir()
        return None if fits else ("the path of a folder", "It is relative to the folder of pyproject.toml.")
    if key == "tolerance":
        fits = isinstance(value, Mapping) and all(_is_multiple(number) for number in value.values())
        slip = next(filter(None, map(_slip, value)), "") if fits else ""
        return None if fits and not slip else ("a table of multiples, such as { bfloat16 = 6.0 }", slip)
    if key == "leave_out":
        return find_reasons_mismatch(value, '{ "*ForQuestionAnswering" = "nobody trains it" }')
    if key == "level":
        return None if value in LEVELS else (f"one of {', '.join(LEVELS)}", did_you_mean(str(value), LEVELS))
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        return "a list of strings", ""
    if key == "dtypes":
        odd = next((entry for entry in value if entry not in DTYPES), None)
        if odd is not None or not value:
            hint = did_you_mean(odd, DTYPES) if odd else ""
            return f"a list of some of {', '.join(DTYPES)}", hint
        return None
    odd = next((entry for entry in value if entry.count(":") != 1), None)
    return ("a list of functions, such as 'acme.toys:picture_batches'", "") if odd is not None else None


def _slip(key: str) -> str:
    """A hint for a key of tolerances that looks like a dtype and is none; empty for others."""
    implementation, dash, dtype = key.rpartition(HEAD_MARK)[2].rpartition("-")
    near = closest(dtype, DTYPES)
    if dtype in DTYPES or not near:
        return ""
    return f"There is no dtype '{dtype}': did you mean '{implementation}{dash}{near}'?"


def _is_multiple(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")
