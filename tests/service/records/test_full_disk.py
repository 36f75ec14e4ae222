"""A service whose own disk is full: what it says, and that it goes on where it was when there is room again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[3]


@pytest.mark.slow
def test_a_service_with_a_full_disk_says_so_and_loses_nothing(tmp_path: Path) -> None:
    """On a disk of three megabytes, which is filled to the last byte."""
    places = [TOP, TOP / "tests/service", TOP / "tests/service/web"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
    command = ["bwrap", "--dev-bind", "/", "/", "--size", "3000000", "--tmpfs", str(tmp_path), "--chdir", str(TOP)]
    command += [sys.executable, "-m", "tests.service.records.full_disk", str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "stored": "the disk is full",
        "pushed": 507,
        "database": "database or disk is full",
        "pushed to a full database": [503, True],
        "page": [200, True],
        "waits": True,
        "ended": True,
        "later": "passed",
        "before": "drifted",
        "database afterwards": "ok",
    }
