"""A run ends well although gloo's threads let go of tensors late."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

SCRIPT = """
import sys

import torch.distributed as dist
from patchgen_core.runtime.parallel import init_parallel_state

init_parallel_state()
group = dist.group.WORLD  # whose threads go on with it
sys.setswitchinterval(100)  # nobody else gets the interpreter until this thread waits for something
for _ in range(3):
    dist.broadcast_object_list([None], src=0)
values = [[number] for number in range(1_000_000)]  # so that the interpreter takes long to end
"""
TRIES = 2
"""Without the wait every second try or so is aborted."""


def test_run_that_ends_right_after_a_collective_is_not_aborted(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    for _ in range(TRIES):
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
