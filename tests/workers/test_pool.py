"""Requests shared out to workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen_core.workers.pool import WorkerPool

HANDLER = """
import os
from patchgen_core.errors import PatchgenError

def run(number):
    if number == 3:
        os._exit(1)
    if number == 4:
        raise PatchgenError("not here")
    return number, os.getpid()
"""


def test_answers_keep_their_order_and_what_workers_cannot_do_is_done_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sharing.py").write_text(HANDLER, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with WorkerPool("sharing:run", 2) as pool:
        answers = list(pool.map(lambda number: pool.ask(number, lambda: (number, 0)), range(9)))
    assert [number for number, _ in answers] == list(range(9))
    assert [number for number, pid in answers if not pid] == [3, 4]
    assert 2 <= len({pid for _, pid in answers if pid}) <= 3
