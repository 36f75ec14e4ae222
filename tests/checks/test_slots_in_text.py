"""A slot is what its class is, wherever that comes from and whatever it is called."""

from __future__ import annotations

import pytest

from patchgen_core.checks.contract.library import Library
from patchgen_core.checks.parity.slots import read_slots, text_of_blocks
from patchgen_core.syntax.source import SourceCache
from tests.conftest import Workspace

NAME = "proj.models.toy.generated.patched_modeling_toy"
OURS = "patchgen_core.ops.slot:OpSlot"
THEIRS = "proj.ops.dispatch:Hook"
DISPATCH = """
class Hook:
    def bind(self, name):
        pass


class OpSlot(Hook):
    pass


class OpSlotTable:
    pass
"""


@pytest.fixture
def library(work: Workspace) -> Library:
    work.write("proj/ops/dispatch.py", DISPATCH)
    work.write(
        "proj/ops/__init__.py", "from .dispatch import Hook, OpSlot\nfrom patchgen_core.ops import OpSlot as Fused\n"
    )
    work.write("proj/models/__init__.py", "")
    return Library(work.project, SourceCache())


@pytest.mark.parametrize(
    ("text", "homes"),
    [
        ("from patchgen_core.ops import OpSlot\na = OpSlot('norm')", (OURS,)),
        ("from patchgen_core import ops\na = {'x': ops.OpSlot('norm', variant='standard')}", (OURS,)),
        ("import patchgen_core.ops.slot as s\nif True:\n    a = s.OpSlot(op_name='norm')", (OURS,)),
        ("from proj.ops import Fused\na = Fused('norm')", (OURS,)),
        ("from patchgen_core.ops import OpSlot\nclass Own(OpSlot): ...\na = Own('norm')", (f"{NAME}:Own", OURS)),
        ("from ....ops.dispatch import Hook\na = Hook('norm')", (THEIRS,)),
        ("from proj.ops import OpSlot\na = OpSlot('norm')", ("proj.ops.dispatch:OpSlot", THEIRS)),
        ("from proj.ops.dispatch import OpSlotTable\na = OpSlotTable('norm')", None),
        ("from proj.nowhere import OpSlot\na = OpSlot('norm')", None),
        ("from patchgen_core.ops import OpSlot\ndef f():\n    return OpSlot('norm')", None),
        ("# a = OpSlot('norm')", None),
    ],
)
def test_the_class_of_a_slot_is_followed_to_where_it_is_defined(
    library: Library, text: str, homes: tuple[str, ...] | None
) -> None:
    slots = read_slots(text, NAME, library)
    assert [(slot.homes, slot.op_name, slot.variant) for slot in slots] == (
        [] if homes is None else [(homes, "norm", "standard")]
    )
    assert [slot.is_own for slot in slots] == ([] if homes is None else [OURS in homes])


def test_a_config_says_which_slots_its_module_will_have(library: Library) -> None:
    text = """
config.add_import("proj.ops.dispatch", names=["Hook"])
config.add_post_import_block('''
    norm = Hook("norm", "standard")
''')
"""
    slots = read_slots(text_of_blocks(text), "proj.models.toy.toy_gpu_patch_gen_config", library)
    assert [slot.homes for slot in slots] == [(THEIRS,)]
