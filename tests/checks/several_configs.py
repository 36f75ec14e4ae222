"""A project of several configs that are alike, each of which writes a file of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.checking import check
from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.workers.processors import list_processors
from tests.conftest import PATCH, PREAMBLE, UPSTREAM_TEXT, Workspace

NOTES_PROCESS = """
import os
with open({place!r}, "a") as file:
    file.write(f"{{os.getpid()}} ")
"""
"""What has a config note the process that it is loaded in."""


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


def run_leading(
    work: Workspace, command: str, *options: str, alone: bool = False, **environment: str
) -> tuple[int, str, str]:
    """How a command ends and what it writes, where it leads a session of its own; ``alone`` on one processor."""
    processor = {min(list_processors())}
    keep: Callable[[], None] | None = (lambda: os.sched_setaffinity(0, processor)) if alone else None
    done = subprocess.run(
        [sys.executable, "-m", "patchgen_core", command, *options],
        cwd=work.root,
        env={**os.environ, "PYTHONPATH": str(work.site), **environment},
        capture_output=True,
        text=True,
        start_new_session=True,
        preexec_fn=keep,
    )
    return done.returncode, done.stdout, done.stderr
