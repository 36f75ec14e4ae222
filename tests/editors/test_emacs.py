"""Emacs with the settings of docs/editors.md, over a copy of the zoo: what it shows."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pygls", reason="needs the extra lsp")

from tests.editors.emacs import Emacs
from tests.lsp.editor import LLAMA, QWEN3

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.emacs]


@pytest.fixture(scope="module")
def emacs(zoo: Path) -> Iterator[Emacs]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as data:  # a socket's path is short
        emacs = Emacs(zoo, Path(data))
        yield emacs
        emacs.close()


@pytest.fixture(autouse=True)
def opened(emacs: Emacs, zoo: Path) -> None:
    emacs.open(str(zoo / QWEN3), "Qwen3 by op slots")


def test_a_slip_in_a_target_is_marked_while_it_is_typed_and_an_action_mends_it(emacs: Emacs) -> None:
    emacs.go_to("Qwen3MLP.forward", len("Qwen3MLP"))
    emacs.type("X")
    emacs.until_shown("Flymake[1 0]")
    emacs.command("flymake-goto-prev-error")
    emacs.until_shown("has no class 'Qwen3MLPX'")
    emacs.command("eglot-code-actions")
    emacs.until_shown("Write 'Qwen3MLP'")
    emacs.press("Enter")
    emacs.until_hidden("Qwen3MLPX")
    emacs.until_shown('"Qwen3MLP.forward", replacement=llama_mlp_forward')


def test_hover_shows_what_the_config_changes(emacs: Emacs) -> None:
    emacs.go_to("Qwen3MLP.forward")
    emacs.press("C-h", ".")
    emacs.until_shown("modeling_qwen3.py:", "+        if slot_swiglu_mlp.has_kernel:")


def test_the_definition_of_a_target_is_upstreams(emacs: Emacs) -> None:
    emacs.go_to("Qwen3MLP.forward")
    emacs.press("M-.")
    emacs.until_shown("down_proj = self.down_proj(", "modeling_qwen3.py ")


def test_references_of_a_shared_patch_are_listed_from_the_import_of_it(emacs: Emacs) -> None:
    emacs.go_to("llama_mlp_forward", len("llama_mlp_forward"))
    emacs.press("M-?")
    emacs.until_shown("mistral_gpu_patch_gen_config.py", "def llama_mlp_forward(self, x):")


def test_a_helper_is_renamed_in_the_config_and_where_another_imports_it(emacs: Emacs, zoo: Path) -> None:
    emacs.open(str(zoo / LLAMA), "Llama by op slots")
    emacs.go_to("def llama_mlp_forward", 5)
    emacs.command("eglot-rename")
    emacs.until_shown("Rename `llama_mlp_forward' to")
    emacs.press("C-a", "C-k")
    emacs.type("llama_gated")
    emacs.press("Enter")
    emacs.until_shown("Proceed?", "mistral_gpu_patch_gen_config.py")
    emacs.press("y")
    emacs.until_shown("def llama_gated(self, x):")
    emacs.evaluate('(find-file "../mistral/mistral_gpu_patch_gen_config.py")')
    assert int(emacs.evaluate('(how-many "llama_gated" 1)')) >= 2


def test_targets_complete(emacs: Emacs) -> None:
    emacs.evaluate("(goto-char (point-max))")
    emacs.type('@config.override_method("Qwen3Ro')
    emacs.press("C-M-i")
    emacs.until_shown("Qwen3RotaryEmbedding.forward", "def forward(self, x, position_ids)")
