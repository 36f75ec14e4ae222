"""Flash attention without a GPU: what its functions compute of the arguments that they get, in any dtype.

The functions stand in for those of flash-attn behind transformers' own interface, which unpads, packs and picks
arguments as it does on a GPU. An argument that makes the real ones read or leave out other memory raises here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from transformers import modeling_flash_attention_utils as interface

FLASH_2, FLASH_3 = "flash_attention_2", "flash_attention_3"
_STATE = ("_lazy_imports", "_loaded_implementation", "_flash_fn", "_flash_varlen_fn", "_flash_with_kvcache_fn",
          "_pad_fn", "_unpad_fn", "_process_flash_kwargs_fn", "_process_with_kvcache_kwargs_fn")  # fmt: skip
"""What transformers keeps of the functions that it imported, and how it imports them."""


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    deterministic: bool = False,
) -> Tensor:
    """Version 2, for rows of one length: (rows, length, heads, size of a head); keys may have fewer heads.

    Causal queries are aligned with the last keys. A window is how many keys to the left and right a query sees beside
    its own, -1 for all. Scores are ``softmax_scale``, by default the size of a head to the power of -1/2, times the
    product; ``softcap`` bounds them by a tanh, 0 does not.
    """
    outputs = []
    for row in range(len(q)):
        sees = _sees(q.shape[1], k.shape[1], causal, window_size, q.device)
        outputs.append(_attend(q[row], k[row], v[row], sees, softmax_scale, softcap, dropout_p))
    return torch.stack(outputs)


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    deterministic: bool = False,
) -> Tensor:
    """Version 2, for sequences one after the other: (tokens, heads, size of a head).

    Sequence ``i`` has the tokens from ``cu_seqlens[i]`` up to ``cu_seqlens[i + 1]``; the rest as
    :func:`flash_attn_func`.

    Raises:
        ValueError: the bounds are no int32 numbers that rise from 0 to the number of tokens, or a sequence is longer
            than ``max_seqlen``: a GPU leaves such tokens out.
    """
    bounds = (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    return _attend_sequences((q, k, v), bounds, causal, window_size, (softmax_scale, softcap, dropout_p))


def flash_attn_3_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    deterministic: bool = False,
    s_aux: Tensor | None = None,
) -> Tensor:
    """Version 3: no dropout, and ``s_aux`` has for each head the score of a sink, which takes part in the softmax and
    has no value."""
    outputs = []
    for row in range(len(q)):
        sees = _sees(q.shape[1], k.shape[1], causal, window_size, q.device)
        outputs.append(_attend(q[row], k[row], v[row], sees, softmax_scale, softcap, sinks=s_aux))
    return torch.stack(outputs)


def flash_attn_3_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    deterministic: bool = False,
    s_aux: Tensor | None = None,
) -> Tensor:
    """Version 3 of :func:`flash_attn_varlen_func`, as :func:`flash_attn_3_func`."""
    bounds = (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    return _attend_sequences((q, k, v), bounds, causal, window_size, (softmax_scale, softcap, 0.0, s_aux))


FUNCTIONS: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    FLASH_2: (flash_attn_func, flash_attn_varlen_func),
    FLASH_3: (flash_attn_3_func, flash_attn_3_varlen_func),
}


@contextmanager
def standing_in() -> Iterator[None]:
    """Have transformers call these functions for flash attention of either version."""
    kept = {name: getattr(interface, name) for name in _STATE if hasattr(interface, name)}

    def imports(implementation: str | None, *_: Any, **__: Any) -> tuple[Any, ...]:
        cached = (None,) if "_flash_with_kvcache_fn" in kept else ()  # which older releases do not know
        pair = FUNCTIONS.get(implementation or FLASH_2, FUNCTIONS[FLASH_2])
        return (*pair, *cached, interface._pad_input, interface._unpad_input)

    try:
        vars(interface).update(dict.fromkeys(kept), _lazy_imports=imports)
        yield
    finally:
        vars(interface).update(kept)


def _attend_sequences(
    parts: tuple[Tensor, Tensor, Tensor],
    bounds: tuple[Tensor, Tensor, int, int],
    causal: bool,
    window_size: tuple[int, int],
    more: tuple[Any, ...],
) -> Tensor:
    q, k, v = parts
    ends_q, ends_k = (
        _check_bounds(ends, longest, len(tokens), side)
        for ends, longest, tokens, side in zip(bounds[:2], bounds[2:], parts[:2], "qk", strict=True)
    )
    if len(ends_q) != len(ends_k):
        raise ValueError(f"cu_seqlens_q has {len(ends_q) - 1} sequences and cu_seqlens_k {len(ends_k) - 1}")
    sees = torch.zeros(len(q), len(k), dtype=torch.bool, device=q.device)
    for index in range(len(ends_q) - 1):
        rows, columns = slice(ends_q[index], ends_q[index + 1]), slice(ends_k[index], ends_k[index + 1])
        lengths = rows.stop - rows.start, columns.stop - columns.start
        sees[rows, columns] = _sees(*lengths, causal, window_size, q.device)
    return _attend(q, k, v, sees, *more)


def _check_bounds(ends: Tensor, longest: Any, tokens: int, side: str) -> list[int]:
    if ends.dtype is not torch.int32:
        raise ValueError(f"cu_seqlens_{side} is {ends.dtype}, but flash attention takes torch.int32")
    numbers: list[int] = ends.tolist()
    lengths = [end - start for start, end in pairwise(numbers)]
    if not lengths or numbers[0] != 0 or numbers[-1] != tokens or min(lengths) < 0:
        raise ValueError(f"cu_seqlens_{side} does not rise from 0 to the {tokens} tokens: {numbers}")
    if max(lengths) > int(longest):
        raise ValueError(f"max_seqlen_{side} is {int(longest)}, but a sequence has {max(lengths)} tokens")
    return numbers


def _sees(queries: int, keys: int, causal: bool, window_size: tuple[int, int], device: torch.device) -> Tensor:
    """Which keys (queries, keys) a query sees."""
    ahead = torch.arange(keys, device=device)[None] - torch.arange(queries, device=device)[:, None] - (keys - queries)
    left, right = window_size
    sees = torch.ones_like(ahead, dtype=torch.bool)
    if left >= 0:
        sees &= ahead >= -left
    if causal or right >= 0:
        sees &= ahead <= (0 if causal else right)
    return sees


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sees: Tensor,
    softmax_scale: float | None,
    softcap: float,
    dropout_p: float = 0.0,
    sinks: Tensor | None = None,
) -> Tensor:
    """Attention of (tokens, heads, size); a query that sees nothing gets zeros."""
    k, v = (value.repeat_interleave(q.shape[1] // value.shape[1], dim=1) for value in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q, k) * (q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores.masked_fill(~sees, torch.finfo(scores.dtype).min)
    if sinks is not None:
        scores = torch.cat((scores, sinks[:, None, None].expand(-1, len(q), 1).to(scores.dtype)), dim=-1)
    weights = torch.softmax(scores, dim=-1)[..., : len(k)] * sees
    return torch.einsum("hqk,khd->qhd", torch.nn.functional.dropout(weights, dropout_p), v)
