"""A project of five hundred configs: the server answers about each, and holds few of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("pygls", reason="needs the extra lsp")

from tests.conftest import PATCH, PREAMBLE, UPSTREAM_TEXT, Workspace
from tests.lsp.editor import Editor
from tests.lsp.test_robust import ask_everything

pytestmark = pytest.mark.slow
COUNT = 500
MOST_MIB = 400


def processes_below(process: int) -> set[int]:
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return {process, *(each for child in children for each in processes_below(int(child)))}


def memory(process: int) -> int:
    rows = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return next(int(row.split()[1]) // 1024 for row in rows if row.startswith("Pss:"))


def test_five_hundred_configs_are_answered_for_one_after_the_other(work: Workspace, typist: Editor) -> None:
    work.upstream(UPSTREAM_TEXT)
    paths = [f"proj/models/toy{number}/toy_gpu_patch_gen_config.py" for number in range(COUNT)]
    for path in paths:
        (work.root / path).parent.mkdir()
        (work.root / path).write_text(PREAMBLE + PATCH)
    for path in paths[:: COUNT // 50]:
        [drift] = typist.open(path)
        assert "does not exist" in drift.message
    ask_everything(typist, paths[0], "Norm.forward")
    assert any(title.endswith(f"{COUNT} configs") for title in typist.lenses(paths[0]).values())
    slip = PATCH.replace("Norm.forward", "Nrom.forward")
    [wrong] = typist.change(paths[0], PREAMBLE + slip)
    assert "no class 'Nrom'" in wrong.message
    assert typist.messages == []
    assert sum(map(memory, processes_below(os.getpid()) - {os.getpid()})) < MOST_MIB
