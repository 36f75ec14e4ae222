"""A vision tower whose patches ranks share: values and gradients of the whole."""

from __future__ import annotations

import pytest
import torch
from rank_sums import sum_over_ranks
from torch import Tensor, nn
from torch.nn import functional as F

from patchgen_core.runtime.parallel import (
    gather_heads_scatter_seq,
    gather_outputs,
    gather_seq_scatter_heads,
    init_parallel_state,
    pad_cu_seqlens,
    select_features,
    slice_input_tensor,
    sp_pad_and_slice,
    sp_padding,
)


class Tower(nn.Module):
    """Blocks of attention over packed patches, whose outputs are merged by fours, as upstream's towers have it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.merge = nn.Linear(3, 8), nn.Linear(32, 6)
        self.blocks = nn.ModuleList(nn.Linear(8, 24) for _ in range(2))

    def forward(self, pixels: Tensor, positions: Tensor, cu_seqlens: Tensor) -> tuple[Tensor, list[Tensor]]:
        padding = sp_padding(pixels.shape[0], 4)
        patches = pixels.shape[0]
        states = self.embed(sp_pad_and_slice(pixels, 0, pad_scale=4))
        states = states + sp_pad_and_slice(positions, 0, pad_scale=4)
        cu_seqlens = pad_cu_seqlens(cu_seqlens, padding)
        deep = []
        for block in self.blocks:
            states = states + self.attend(*block(states).view(-1, 3, 4, 2).unbind(1), cu_seqlens)
            deep.append(gather_outputs(states, 0, 0, patches))
        merged = self.merge(states.view(-1, 32))
        return gather_outputs(merged, 0, 0, patches // 4), deep

    def attend(self, q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor) -> Tensor:
        q, k, v = (gather_seq_scatter_heads(x, 0, 1) for x in (q, k, v))  # [patches, heads, 2]
        assert int(cu_seqlens[-1]) == q.shape[0]
        lengths = cu_seqlens.diff().tolist()
        parts = zip(*(x.transpose(0, 1).split(lengths, 1) for x in (q, k, v)))
        whole = torch.cat([F.scaled_dot_product_attention(*part) for part in parts], 1).transpose(0, 1)
        return gather_heads_scatter_seq(whole, 1, 0).flatten(1)


def tower() -> None:
    model = Tower()
    pixels, positions, ends = torch.randn(12, 3), torch.randn(12, 8), torch.tensor([0, 4, 12])
    mask = torch.tensor([[0, 1, 0, 1, 1, 0, 0, 0]]).bool()
    embeds, weights = torch.randn(1, 8, 6), torch.randn(1, 8, 6)

    def loss(mask: Tensor, embeds: Tensor, weights: Tensor) -> Tensor:
        features, deep = model(pixels, positions, ends)
        filled = embeds.masked_scatter(mask[..., None], select_features(features, mask))
        added = select_features(deep[0][::4, :6] + deep[1][::4, :6], mask)
        return ((filled + torch.zeros_like(filled).masked_scatter(mask[..., None], added)) * weights).sum()

    expected = loss(mask, embeds, weights)
    gradients = torch.autograd.grad(expected, list(model.parameters()))
    init_parallel_state(sp_size=2)
    own = loss(*(slice_input_tensor(x, 1) for x in (mask, embeds, weights)))
    torch.testing.assert_close(sum_over_ranks(own.detach()), expected.detach())
    for mine, gradient in zip(torch.autograd.grad(own, list(model.parameters())), gradients):
        torch.testing.assert_close(sum_over_ranks(mine), gradient)


@pytest.mark.slow
def test_a_tower_over_slices_of_patches_is_that_over_all_of_them(ranks):
    ranks(2, tower)
