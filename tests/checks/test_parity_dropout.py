"""Parity sees dropout and noise that a patch drops, adds or moves, whatever order it draws its random numbers in."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from patchgen_core.models.modes_noise import WithoutDraws
from tests.checks.parity_runs import PREAMBLE, compare
from tests.conftest import Workspace

pytestmark = pytest.mark.torch

WITH_TORCH = PREAMBLE.replace("import torch\n", "import torch\nfrom torch import nn\n")
ATTENTION = """
@config.replace_function("eager_attention_forward")
def attention(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    key_states = repeat_kv(key, module.num_key_value_groups)
    value_states = repeat_kv(value, module.num_key_value_groups)
    attn_weights = torch.matmul(query, key_states.transpose(2, 3)) * scaling
    if attention_mask is not None:
        attn_weights = attn_weights + attention_mask
    attn_weights = nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32).to(query.dtype)
    {}
    return attn_output.transpose(1, 2).contiguous(), attn_weights
"""
WEIGHTS = "attn_weights = nn.functional.dropout(attn_weights, p={}, training={})"
OUTPUT = "    attn_output = torch.matmul(attn_weights, value_states)"
MOVED = OUTPUT.strip() + "\n    attn_output = nn.functional.dropout(attn_output, p=dropout, training=module.training)"


@pytest.mark.parametrize(
    "body",
    [
        OUTPUT.strip(),
        MOVED,
        f"{WEIGHTS.format('dropout / 2', 'module.training')}\n{OUTPUT}",
        f"{WEIGHTS.format('module.attention_dropout', 'True')}\n{OUTPUT}",
    ],
    ids=["dropped", "moved", "of another rate", "in evaluation too"],
)
@pytest.mark.mostly_slow(2)
def test_dropout_that_is_not_upstreams_is_red(work: Workspace, body: str) -> None:
    result = compare(work, ATTENTION.format(body), preamble=WITH_TORCH)
    (problem,) = result.errors
    assert "with dropout" in problem.hint
    assert "patch of 'eager_attention_forward'" in problem.message


def test_dropout_that_draws_in_another_order_is_green(work: Workspace) -> None:
    drawn = "torch.rand(3)\n    " + WEIGHTS.format("dropout", "module.training")
    result = compare(work, ATTENTION.format(f"{drawn}\n{OUTPUT}"), preamble=WITH_TORCH)
    assert result.errors == ()
    assert any(note.startswith("LlamaForCausalLM: dropout is varied, because patches") for note in result.notes)


def test_fused_attention_drops_its_weights_as_other_attention_does() -> None:
    query, key, value = torch.randn(3, 1, 2, 4, 8, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(4, 4, dtype=torch.bool).tril()
    with WithoutDraws():
        fused = functional.scaled_dot_product_attention(query, key, value, is_causal=True, dropout_p=0.2)
        scores = (query @ key.transpose(2, 3) / 8**0.5).masked_fill(~mask, -torch.inf)
        apart = functional.dropout(scores.softmax(-1), 0.2) @ value
    torch.testing.assert_close(fused, apart)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_noise_is_the_same_in_every_dtype_and_call(dtype: torch.dtype) -> None:
    value = torch.ones(3, 4, dtype=dtype)
    with WithoutDraws():
        draws = [torch.empty_like(value).uniform_(0.9, 1.1), torch.empty_like(value).uniform_(0.9, 1.1)]
        coins = torch.bernoulli(value / 2)
        rows = torch.rand_like(value)
    assert torch.equal(draws[0], draws[1])
    assert draws[0].dtype == dtype
    torch.testing.assert_close(draws[0].double(), 0.9 + 0.2 * rows.double())
    assert torch.equal(coins, (rows < 0.5).to(dtype))
