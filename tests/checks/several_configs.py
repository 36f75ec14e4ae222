"""A project of several configs that are alike, each of which writes a file of its own."""

from __future__ import annotations

from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.checking import check
from patchgen_core.checks.checked_in.compare import fix
from tests.conftest import PATCH, PREAMBLE, UPSTREAM_TEXT, Workspace


def preamble(number: int) -> str:
    """What the text of a config begins with."""
    return PREAMBLE.replace("toy_gpu.py", f"toy_{number}.py")


def config_path(number: int) -> str:
    """Where a config stands below the search root."""
    return f"m{number:03}/toy_patch_gen_config.py"


def make_several(work: Workspace, count: int) -> Workspace:
    """Make so many configs, all of them clean."""
    work.upstream(UPSTREAM_TEXT)
    for number in range(count):
        work.config(PATCH, config_path(number), preamble(number))
    fix(check(Selection(work.project), artifacts=True))
    return work
