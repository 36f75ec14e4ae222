"""What is kept of the drift check, spoilt: never believed, and never the end of a run."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import pytest

from patchgen_core.build.cache import Cache
from patchgen_core.checks.checked_in.compare import fix
from tests.build.cached import FAMILY, HEIR, OTHER, checked, entries, rewrite, same
from tests.conftest import Workspace, generated
from tests.spoils import IN_THE_WAY, SPOILS, body_of, change, without, write_signed

OWN_SPOILS = {
    **SPOILS,
    "another name": change(name="0" * 40),
    "no name": without("name"),
    "no inputs": without("inputs"),
    "no configs": without("configs"),
    "no config": change(configs=[]),
    "a config that is none": change(configs=[{}]),
    "configs that are none": change(configs=3),
    "a file that is a number": change(inputs=[["file", 5, None]]),
    "an upstream that is a number": change(inputs=[["upstream", 5, None]]),
    "settings of another kind": change(inputs=[["own", "", None]]),
    "inputs of no kind": change(inputs=[["unheard", "of", None]]),
    "an input without a state": change(inputs=[["file"]]),
    "inputs that are none": change(inputs={"file": 1}),
    "a target that is a number": change(inputs=[], configs=[{"label": "x", "line": 0, "target": 5, "files": []}]),
    "a target elsewhere": change(inputs=[], configs=[{"label": "x", "line": 0, "target": "/etc/passwd", "files": []}]),
}


@pytest.mark.parametrize("name", OWN_SPOILS)
@pytest.mark.mostly_slow(4)
def test_a_spoilt_entry_is_not_there_and_is_replaced(gated: Workspace, name: str) -> None:
    checked(gated)
    (entry,) = entries(gated)
    kept = entry.read_bytes()
    OWN_SPOILS[name](entry)
    generated(gated).write_text("x = 1\n")  # what a wrong answer would not see
    assert [result.status for result in checked(gated).report.results] == ["drifted"]
    fix(checked(gated).report)
    assert same(gated).reused == ([] if name in IN_THE_WAY else ["toy"])
    if name not in IN_THE_WAY:
        assert entry.read_bytes() == kept


def test_an_entry_under_the_name_of_another_config_is_not_believed(family: Workspace) -> None:
    by_label = {json.loads(body_of(entry))["configs"][0]["label"]: entry for entry in entries(family)}
    other, heir = (next(entry for label, entry in by_label.items() if name in label) for name in ("other", "heir"))
    shutil.copy(heir, other)
    (family.models / "toy/generated/other.py").write_text("x = 1\n")
    statuses = {result.outcome.path: result.status for result in checked(family).report.results}
    assert (statuses[family.models / OTHER], statuses[family.models / HEIR]) == ("drifted", "clean")


@pytest.mark.parametrize("moment", [0.0, 2.0**33])
def test_the_clock_decides_nothing(family: Workspace, moment: float) -> None:
    for path in (*family.root.rglob("*"), *family.site.rglob("*")):
        os.utime(path, (moment, moment))
    assert same(family).reused == FAMILY
    config = family.models / OTHER
    rewrite(config, "x * 3", "x * 4")
    os.utime(config, (moment, moment))
    assert same(family).reused == ["heir", "toy"]


def test_a_project_in_a_folder_of_any_name(family: Workspace, tmp_path: Path) -> None:
    there = tmp_path / "größe 模型"
    shutil.copytree(family.root, there)
    copy = object.__new__(Workspace)
    copy.root, copy.site, copy.models = there, family.site, there / "proj/models"
    assert same(copy).reused == FAMILY


def test_an_entry_that_is_replaced_again_and_again_is_whole_or_not_there(gated: Workspace) -> None:
    checked(gated)
    (entry,) = entries(gated)
    whole = entry.read_bytes()
    poison = {**json.loads(body_of(entry)), "configs": [], "name": ""}
    is_done = threading.Event()

    def replace() -> None:
        while not is_done.wait(0.0002):
            for data in (whole[:200], whole):
                (entry.parent / "new").write_bytes(data)
                os.replace(entry.parent / "new", entry)
            write_signed(entry, json.dumps(poison).encode())

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(10):
            assert [result.status for result in checked(gated).report.results] == ["clean"]
    finally:
        is_done.set()
        thread.join()


def test_a_folder_of_links_in_a_circle_keeps_nothing(gated: Workspace) -> None:
    folder = Cache(gated.project).folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.symlink_to(folder.with_name("round"))
    folder.with_name("round").symlink_to(folder)
    done = gated.patchgen("--check")
    assert (done.returncode, done.stderr.startswith("warning: results cannot be kept: '")) == (0, True)
