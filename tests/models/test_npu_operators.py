"""The stand-ins for torch_npu's operators compute what plain torch does for the same thing."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from patchgen_core.models import npu_operators as npu

pytestmark = pytest.mark.torch


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_norm_gives_the_output_and_then_the_root() -> None:
    x, gamma = random(2, 3, 8), random(8, seed=1)
    normed, rstd = npu.npu_rms_norm(x, gamma, 1e-3)
    torch.testing.assert_close(normed, functional.rms_norm(x, (8,), gamma, 1e-3))
    assert rstd.shape == (2, 3, 1)


def test_the_gate_is_the_first_half() -> None:
    gate, up = random(2, 4), random(2, 4, seed=1)
    torch.testing.assert_close(npu.npu_swiglu(torch.cat((gate, up), dim=-1)), functional.silu(gate) * up)


def test_rotation_of_halves_and_of_neighbours_are_the_same_in_another_order() -> None:
    x, cos, sin = random(1, 2, 3, 4), random(1, 1, 3, 4, seed=1), random(1, 1, 3, 4, seed=2)
    order = torch.tensor([0, 2, 1, 3])
    rotated = npu.npu_rotary_mul(x, cos, sin, rotary_mode="interleave")
    halves = npu.npu_rotary_mul(*(value[..., order] for value in (x, cos, sin)))
    torch.testing.assert_close(halves, rotated[..., order])
    with pytest.raises(ValueError, match="four dimensions"):
        npu.npu_rotary_mul(x, cos[0], sin[0])


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
def test_attention_is_that_of_torch_in_every_layout(layout: str) -> None:
    q, k, v = random(2, 4, 5, 8), random(2, 2, 5, 8, seed=1), random(2, 2, 5, 8, seed=2)
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
    right = functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3, enable_gqa=True)
    parts = [npu._from_bnsd(value, layout) for value in (q, k, v)]
    output, largest, *_ = npu.npu_fusion_attention(*parts, 4, layout, atten_mask=hidden, scale=0.3)
    torch.testing.assert_close(output, npu._from_bnsd(right, layout))
    assert largest.shape == (2, 4, 5, 8)
    down, *_ = npu.npu_fusion_attention(*parts, 4, layout, atten_mask=hidden, scale=0.3, sparse_mode=3)
    torch.testing.assert_close(down, output)


def test_packed_sequences_do_not_see_each_other() -> None:
    q, k, v = (random(5, 2, 8, seed=seed) for seed in range(3))
    mask = torch.ones(1, 1, dtype=torch.bool)
    ends = [2, 5]
    lengths = {"actual_seq_qlen": ends, "actual_seq_kvlen": ends, "atten_mask": mask, "sparse_mode": 3}
    packed, *_ = npu.npu_fusion_attention(q, k, v, 2, "TND", scale=0.3, **lengths)
    alone, *_ = npu.npu_fusion_attention(q[2:], k[2:], v[2:], 2, "TND", scale=0.3, atten_mask=mask, sparse_mode=3)
    torch.testing.assert_close(packed[2:], alone)


def test_products_of_groups_by_ends_and_by_sizes() -> None:
    x, weight = random(5, 4), random(3, 4, 2, seed=1)
    right = torch.cat([x[:2] @ weight[0], x[2:2] @ weight[1], x[2:] @ weight[2]])
    (by_ends,) = npu.npu_grouped_matmul([x], [weight], group_list=torch.tensor([2, 2, 5]), split_item=2, group_type=0)
    sizes = {"group_list": torch.tensor([2, 0, 3]), "group_list_type": 1}
    by_sizes = npu.npu_grouped_matmul([x], [weight], group_type=0, **sizes)
    torch.testing.assert_close(by_ends, right)
    torch.testing.assert_close(torch.cat(by_sizes), right)
    (stack,) = npu.npu_grouped_matmul([x.T], [right], group_type=2, **sizes)
    torch.testing.assert_close(stack[2], x[2:].T @ right[2:])


def test_tokens_come_back_from_their_experts_in_their_shares() -> None:
    tokens, experts = random(3, 4), torch.tensor([[1, 0], [0, 2], [1, 2]])
    permuted, rows = npu.npu_moe_token_permute(tokens, experts)
    torch.testing.assert_close(permuted, tokens[[0, 1, 0, 2, 1, 2]])
    shares = random(3, 2, seed=1)
    back = npu.npu_moe_token_unpermute(permuted, rows, probs=shares)
    torch.testing.assert_close(back, tokens * shares.sum(1, keepdim=True))
