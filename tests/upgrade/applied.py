"""Configs whose replacements are carried over, and what is said of that."""

from __future__ import annotations

import difflib
from pathlib import Path

from tests.conftest import CONFIG, UPSTREAM
from tests.upgrade.upgraded import Upgrading

NORM = """
from acme.models.toy.parts import scale  # noqa: F401


# Norm in double precision
@config.override_method("Norm.forward", description="doubled")  # as agreed
def norm_forward(self, x):
    # --- doubled ---
    x = scale(x)

    return (x + self.eps)   *   2
"""
NEW_NORM = """
def norm_forward(self, x):
    # --- doubled ---
    x = limit(scale(x))
    x = gain(x)

    return (x + self.eps)   *   2
"""
ROTATE = """
@config.replace_function("rotate")
def my_rotate(x, size):
    return x[size // 2 :]
"""
NEW_ROTATE = """
def my_rotate(x, size):
    return x[math.floor(size / 2) :]
"""
HEIR = "heir/heir_gpu_patch_gen_config.py"
HEIR_PREAMBLE = f"""
from patchgen import PatchConfig

from proj.models.toy.toy_gpu_patch_gen_config import norm_forward

config = PatchConfig("{UPSTREAM}", "heir.py")
config.override_method("Norm.forward", replacement=norm_forward)
"""


def changed_lines(before: str, after: str) -> list[str]:
    """The lines that were taken out and put in."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def file(upgrading: Upgrading, path: str = CONFIG) -> Path:
    """A file of the project's models."""
    return upgrading.work.models / path
