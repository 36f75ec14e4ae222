"""Completion and hover of op slots."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("pygls", reason="needs the extra lsp")

from lsprotocol import types

from tests.conftest import UPSTREAM_TEXT, Workspace
from tests.lsp.editor import Editor

CONFIG = "proj/models/toy/toy_gpu_patch_gen_config.py"
TEXT = """
config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_post_import_block(
    '''
    slot_norm = OpSlot("rms_norm", "standard")
    '''
)


@config.override_method("Norm.forward")
def norm_forward(self, x):
    return slot_norm(x, 1, 1) if slot_norm.has_kernel else x
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    work = Workspace(tmp_path_factory.mktemp("project"))
    work.upstream(UPSTREAM_TEXT)
    work.config(TEXT)
    return work


@pytest.fixture(scope="module")
def slotted(work: Workspace) -> Iterator[Editor]:
    editor = Editor(work.root, path=work.site)
    editor.open(CONFIG)
    yield editor
    editor.stop()


def labels(editor: Editor, before: str, after: str) -> set[str]:
    """What is offered behind a piece of the text that is being typed."""
    text = editor.read(CONFIG).replace(before, after) if before else f"{editor.read(CONFIG)}\n{after}"
    editor.type(CONFIG, text)
    place = editor.place(CONFIG, after, len(after))
    items = editor.ask(types.TEXT_DOCUMENT_COMPLETION, types.CompletionParams(**place)) or ()
    editor.type(CONFIG, editor.read(CONFIG))
    return {item.label for item in items}


@pytest.mark.slow
def test_ops_and_variants_complete_in_code_in_quotes(slotted: Editor) -> None:
    slot = 'slot_norm = OpSlot("rms_norm", "standard")'
    assert {"rms_norm", "moe_experts"} <= labels(slotted, slot, 'slot_norm = OpSlot("')
    variants = labels(slotted, slot, 'slot_norm = OpSlot("cross_entropy_loss", "')
    assert variants == {"causal", "seq_cls", "standard"}
    one_line = 'config.add_post_import_block(\'x = OpSlot("rms_norm", variant="'
    assert labels(slotted, "", one_line) == {"standard", "one_plus_weight"}


def test_what_a_tolerance_is_limited_to_completes(slotted: Editor) -> None:
    assert {"eager", "liger_kernel", "npu"} <= labels(slotted, "", 'config.tolerate(2, "why", implementation="')
    assert labels(slotted, "", 'config.tolerate(2, "why", dtype="') == {"float32", "bfloat16"}


@pytest.mark.parametrize("piece", ['"rms_norm"', "slot_norm = OpSlot", "slot_norm(x, 1, 1)"])
def test_hover_shows_the_kernels_of_a_slot_and_their_hardware(slotted: Editor, piece: str) -> None:
    hover = slotted.ask(types.TEXT_DOCUMENT_HOVER, types.HoverParams(**slotted.place(CONFIG, piece, 3)))
    text = hover.contents.value
    assert text.startswith("**rms_norm**, variant `standard`")
    assert "| `liger_kernel` | a CUDA device or Triton's interpreter |" in text
    assert "| `npu` | an NPU | torch_npu | needs package 'torch_npu' |" in text


def test_a_kernel_of_the_projects_own_is_told(work: Workspace, slotted: Editor) -> None:
    work.write("pyproject.toml", work.root.joinpath("pyproject.toml").read_text() + 'kernels = ["proj.models.own"]\n')
    spec = 'KernelSpec(name="ours", op_name="rms_norm", variant="standard", factory=print)'
    work.write("proj/models/own.py", f"from patchgen_core.ops import KernelSpec\n\n{spec}\n")
    hover = slotted.ask(types.TEXT_DOCUMENT_HOVER, types.HoverParams(**slotted.place(CONFIG, '"rms_norm"', 3)))
    assert "| `ours` |" in hover.contents.value
