"""The edits by which ``make mutation`` measures the gate can be made in today's zoo, and are enough of each class."""

import ast
import shutil
from collections import Counter
from pathlib import Path

import pytest

from patchgen_core.errors import PatchgenError
from tools.mutation.edits import CLASSES, ROOT, ZOO, Edit, choose_edits, read_edits

pytestmark = pytest.mark.torch

EDITS = read_edits()
DEFECTS = [edit for edit in EDITS if edit.is_defect]
WRITTEN_BY_HAND = {path for path in (ROOT / ZOO).rglob("*.py") if path.parent.name != "generated"}


@pytest.mark.slow
def test_texts_are_there_once_and_the_new_ones_are_python():
    assert [edit.name for edit in EDITS if not can_be_made(edit)] == []


def can_be_made(edit: Edit) -> bool:
    file, (head, text, tail) = edit.text_to_change(ROOT / ZOO)
    ast.parse(head + text.replace(edit.old, edit.new) + tail)
    return ROOT / ZOO / file in WRITTEN_BY_HAND and text.count(edit.old) == 1 and edit.new != edit.old


def test_a_line_that_no_patch_repeats_is_changed_in_the_text_that_the_edits_make(tmp_path: Path):
    shutil.copytree(ROOT / ZOO, tmp_path / ZOO, ignore=shutil.ignore_patterns("__pycache__", "generated"))
    [edit] = choose_edits(EDITS, ["llama-dropout-in-evaluation"])
    config = ROOT / ZOO / edit.config
    assert edit.old not in config.read_text()
    assert edit.apply(tmp_path / ZOO) == edit.config
    before, _, rest = (tmp_path / ZOO / edit.config).read_text().partition("\n\nplace = ")
    own, _, after = rest.partition(".pop())  # where the edits were\n")
    assert before + after == config.read_text()
    assert '@config.override_method("LlamaAttention.forward"' in own
    assert edit.new in own


def test_each_has_a_name_of_its_own_and_says_what_it_is():
    assert [name for name, count in Counter(edit.name for edit in EDITS).items() if count > 1] == []
    assert all(edit.why and edit.target for edit in EDITS)
    assert all(edit.mode and edit.shows for edit in DEFECTS)


def test_there_are_enough_of_every_class_and_of_every_model():
    by_class = Counter(edit.number for edit in DEFECTS)
    assert set(by_class) == set(CLASSES)
    assert min(by_class.values()) >= 10
    assert len(DEFECTS) >= 120
    assert len(EDITS) - len(DEFECTS) >= 60
    models = {path.parent.name for path in WRITTEN_BY_HAND if path.name.endswith("_patch_gen_config.py")}
    assert {edit.model for edit in DEFECTS} == {edit.model for edit in EDITS if not edit.is_defect} == models


def test_edits_are_chosen_by_name_model_and_class():
    assert {edit.model for edit in choose_edits(EDITS, ["llama"])} == {"llama"}
    assert {edit.number for edit in choose_edits(EDITS, ["10"])} == {10}
    assert [edit.name for edit in choose_edits(EDITS, ["llama-silu-written-out"])] == ["llama-silu-written-out"]
    assert choose_edits(EDITS, []) == EDITS
    with pytest.raises(PatchgenError, match="there is no defect, model or class 'lama'"):
        choose_edits(EDITS, ["lama"])
