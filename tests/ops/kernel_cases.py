"""Rotations that kernels refuse, and Python in a process without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any


def child(code: str) -> Any:
    """What a Python process without a GPU prints."""
    settings = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    settings |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, env=settings, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


REFUSED_ROTATIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]] = {
    "part of a head": ((2, 4, 5, 8), (2, 2, 5, 8), (2, 5, 4), 1),
    "more positions than tokens": ((2, 4, 5, 8), (2, 2, 5, 8), (2, 6, 8), 1),
    "another layout": ((2, 4, 5, 8), (2, 2, 5, 8), (2, 5, 8), 2),
    "another batch": ((2, 4, 5, 8), (2, 2, 5, 8), (3, 5, 8), 1),
    "heads of odd size": ((2, 4, 5, 7), (2, 2, 5, 7), (2, 5, 7), 1),
    "three dimensions": ((2, 5, 8), (2, 5, 8), (2, 5, 8), 1),
}
