"""Neovim with the settings of docs/editors.md, over a copy of the zoo: what it shows."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pygls", reason="needs the extra lsp")

from tests.editors.neovim import Neovim
from tests.lsp.editor import LLAMA, QWEN3

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.neovim]


@pytest.fixture(scope="module")
def neovim(zoo: Path) -> Iterator[Neovim]:
    with tempfile.TemporaryDirectory() as data:  # a socket's path is short
        neovim = Neovim(zoo, Path(data))
        yield neovim
        neovim.close()


@pytest.fixture(autouse=True)
def opened(neovim: Neovim) -> None:
    neovim.open(QWEN3, "Qwen3 by op slots")


def test_a_slip_in_a_target_is_marked_while_it_is_typed(neovim: Neovim) -> None:
    neovim.go_to("Qwen3RMSNorm.forward", "cwQwen3RMSNrom")
    neovim.press("Escape")
    screen = neovim.until_shown("has no class")
    [line] = [line for line in screen.split("\n") if "has no class" in line]
    assert line.startswith("E ")
    assert '"Qwen3RMSNrom.forward",' in line
    neovim.lua("vim.diagnostic.open_float()")
    neovim.until_shown("Did you mean 'Qwen3RMSNorm'?")
    neovim.press("j")
    neovim.type("u")
    neovim.until_hidden("has no class")


def test_hover_shows_what_the_config_changes(neovim: Neovim) -> None:
    neovim.go_to("Qwen3MLP.forward")
    neovim.lua("vim.lsp.buf.hover()")
    neovim.until_shown("modeling_qwen3.py:", "+        if slot_swiglu_mlp.has_kernel:")


def test_the_definition_of_a_target_is_upstreams(neovim: Neovim) -> None:
    neovim.go_to("Qwen3MLP.forward")
    neovim.lua("vim.lsp.buf.definition()")
    neovim.until_shown("class Qwen3MLP(nn.Module):", "down_proj = self.down_proj(")
    neovim.command("echo expand('%:t') .. ' line ' .. line('.') .. ': ' .. trim(getline('.'))")
    neovim.until_shown("modeling_qwen3.py line ", ": def forward(self, x):")


def test_references_of_a_shared_patch_are_listed(neovim: Neovim) -> None:
    neovim.open(LLAMA, "Llama by op slots")
    neovim.go_to("def llama_mlp_forward", "w")
    neovim.lua("vim.lsp.buf.references()")
    neovim.until_shown("mistral/mistral_gpu_patch_gen_config.py|", "col 5| def llama_mlp_forward(self, x):")
    neovim.command("cclose")


def test_a_helper_is_renamed_in_the_config_and_where_another_imports_it(neovim: Neovim) -> None:
    neovim.open(LLAMA, "Llama by op slots")
    neovim.go_to("def llama_mlp_forward", "w")
    neovim.lua("vim.lsp.buf.rename('llama_gated_mlp_forward')")
    neovim.until_shown("def llama_gated_mlp_forward(self, x):")
    neovim.command("bufdo call setreg('a', expand('%:t') .. ' has ' .. search('llama_gated_mlp_forward', 'wn'), 'al')")
    neovim.command("echo join(filter(getreg('a', 1, 1), {_, row -> row =~ 'has [1-9]'}), ', ')")
    neovim.until_shown("mistral_gpu_patch_gen_config.py has")
    neovim.command("bufdo edit!")


def test_targets_complete(neovim: Neovim) -> None:
    neovim.press("Escape")
    neovim.type('Go@config.override_method("Qwen3Ro')
    neovim.press("C-x", "C-o")
    neovim.until_shown("Qwen3RotaryEmbedding.forward")
    neovim.press("Escape")
    neovim.type("u")
