"""The functions that stand in for flash attention compute what torch's own attention does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from patchgen_core.models.flash_attention import FLASH_2, FLASH_3, FUNCTIONS

pytestmark = pytest.mark.torch
ROWS_2, PACKED_2 = FUNCTIONS[FLASH_2]
ROWS_3, PACKED_3 = FUNCTIONS[FLASH_3]
Q, K, V = (
    torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    for seed, size in enumerate([(1, 5, 4, 8), (1, 7, 2, 8), (1, 7, 2, 8)])
)


def by_torch(sees: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    q, k, v = (value.transpose(1, 2) for value in (Q, K, V))
    return functional.scaled_dot_product_attention(q, k, v, sees, scale=scale, enable_gqa=True).transpose(1, 2)


@pytest.mark.parametrize("flash", [ROWS_2, ROWS_3])
@pytest.mark.parametrize(
    ("options", "sees"),
    [
        ({}, torch.ones(5, 7, dtype=torch.bool)),
        ({"causal": True}, torch.ones(5, 7, dtype=torch.bool).tril(2)),
        ({"causal": True, "window_size": (1, 1)}, torch.ones(5, 7, dtype=torch.bool).tril(2).triu(1)),
        ({"window_size": (1, 0)}, torch.ones(5, 7, dtype=torch.bool).tril(2).triu(1)),
    ],
    ids=["all", "causal", "causal window", "window"],
)
def test_rows_attend_as_by_torch(flash: Any, options: dict[str, Any], sees: torch.Tensor) -> None:
    torch.testing.assert_close(flash(Q, K, V, softmax_scale=0.2, **options), by_torch(sees, 0.2))
    torch.testing.assert_close(flash(Q, K, V, **options), by_torch(sees))


def test_packed_sequences_attend_as_rows_of_their_own() -> None:
    bounds = {"cu_seqlens_q": torch.tensor([0, 2, 5], dtype=torch.int32), "max_seqlen_q": 3}
    bounds |= {"cu_seqlens_k": torch.tensor([0, 3, 7], dtype=torch.int32), "max_seqlen_k": 4}
    packed = PACKED_2(Q[0], K[0], V[0], **bounds, causal=True, softcap=0.7)
    first, second = (
        ROWS_2(q, k, v, causal=True, softcap=0.7)[0]
        for q, k, v in ((Q[:, :2], K[:, :3], V[:, :3]), (Q[:, 2:], K[:, 3:], V[:, 3:]))
    )
    torch.testing.assert_close(packed, torch.cat((first, second)))
    for wrong, words in (
        ({"max_seqlen_k": 3}, "a sequence has 4 tokens"),
        ({"cu_seqlens_q": torch.tensor([0, 2, 5])}, "takes torch.int32"),
        ({"cu_seqlens_q": torch.tensor([0, 2, 4], dtype=torch.int32)}, "does not rise from 0 to the 5 tokens"),
    ):
        with pytest.raises(ValueError, match=words):
            PACKED_3(Q[0], K[0], V[0], **(bounds | wrong))


def test_a_sink_takes_its_share_and_gives_nothing() -> None:
    with_key = torch.cat((K, torch.zeros_like(K[:, :1])), dim=1), torch.cat((V, torch.zeros_like(V[:, :1])), dim=1)
    sinks = torch.zeros(4, dtype=torch.float64)
    torch.testing.assert_close(ROWS_3(Q, K, V, s_aux=sinks), ROWS_3(Q, *with_key))
    assert not torch.allclose(ROWS_3(Q, K, V, s_aux=sinks + 1), ROWS_3(Q, *with_key))


def test_a_query_that_sees_nothing_gets_zeros() -> None:
    assert not ROWS_2(K[:, :, :2], Q[:, :, :2], Q[:, :, :2], causal=True)[:, :2].any()
