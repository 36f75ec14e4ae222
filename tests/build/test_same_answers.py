"""Checks that use the results of earlier runs tell what those without them do, whatever was edited meanwhile.

``PATCHGEN_EDITS=5000`` makes that many random edits instead of the usual few, and ``PATCHGEN_SEED`` starts with
others.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.random_edits import run_apart

pytestmark = pytest.mark.torch

SEED = int(os.environ.get("PATCHGEN_SEED", "1"))


def edits(usual: int) -> int:
    return int(os.environ.get("PATCHGEN_EDITS", usual))


@pytest.mark.slow
def test_small_project(tmp_path: Path) -> None:
    tally = run_apart(edits(60), SEED, tmp_path)
    assert tally.reused > tally.edits
    assert min(tally.statuses[status] for status in ("clean", "drifted", "error")) > 0


def test_all_checks_of_a_small_project(tmp_path: Path) -> None:
    tally = run_apart(edits(3), SEED + 1, tmp_path, "gate")
    assert tally.reused > tally.edits
    assert min(tally.statuses[f"{check} clean"] for check in ("drift", "contract", "world")) > 0


@pytest.mark.slow
def test_code_that_runs_in_processes(tmp_path: Path) -> None:
    tally = run_apart(edits(3), SEED + 1, tmp_path, "apart")
    assert tally.reused > tally.edits
    assert min(tally.statuses[f"{check} clean"] for check in ("drift", "apart")) > 0


@pytest.mark.slow
def test_all_checks_of_a_model(tmp_path: Path) -> None:
    tally = run_apart(edits(3), SEED, tmp_path, "models")
    assert tally.reused > 0


@pytest.mark.slow
def test_zoo(tmp_path: Path) -> None:
    tally = run_apart(edits(3), SEED, tmp_path, "zoo")
    assert tally.reused > 0
    assert min(tally.statuses[status] for status in ("clean", "drifted")) > 0
