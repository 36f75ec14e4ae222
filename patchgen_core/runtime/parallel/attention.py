"""Attention over whole sequences of which each rank has a slice."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

from patchgen_core.runtime.parallel.sequence import (
    gather_heads_scatter_seq,
    gather_seq_scatter_heads,
    slice_input_tensor,
    sp_group_of,
)

Attention = Callable[..., tuple[Tensor, Any]]


@dataclass(frozen=True)
class _Heads:
    """How heads are made to divide by the ranks.

    Attributes:
        repeats: how often each head of keys and values is repeated.
        padding: how many heads of zeros are added to queries, keys and values.
        groups: how many query heads share a head of keys and values then.
    """

    repeats: int
    padding: int
    groups: int


def sequence_parallel_attention(attention: Attention) -> Attention:
    """An attention function of transformers that takes and returns slices of the sequence.

    ::

        attention_interface = sequence_parallel_attention(attention_interface)
        attn_output, attn_weights = attention_interface(self, query_states, key_states, value_states, ...)

    Queries, keys and values are [B, heads, S / sp, D], with position embeddings applied; the result is
    [B, S / sp, heads, D], and no attention weights. The function in between gets whole sequences and a part of the
    heads. Mask, position ids and ``cu_seq_lens`` are those of whole sequences. Where the ranks outnumber the heads of
    keys and values, these are repeated; where query heads do not divide, heads of zeros are added. A parameter for
    each head that it reads (``s_aux``, ``module.sinks``) is cut to this rank's heads.

    Raises:
        RuntimeError: keys are cached, or the mask is of a slice.
    """
    group = sp_group_of(None)
    return attention if group is None else functools.partial(_attend, attention, group)


def _attend(
    attention: Attention,
    group: dist.ProcessGroup,
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    if key.shape[2] != query.shape[2]:
        raise RuntimeError(
            f"{key.shape[2]} keys for {query.shape[2]} queries: there is no cache under sequence parallelism."
            " Call the model with use_cache=False."
        )
    _check_mask(attention_mask, query.shape[2] * group.size())
    heads = _divide_heads(query.shape[1], key.shape[1], group.size())
    count = query.shape[1]
    query = gather_seq_scatter_heads(_pad_heads(query, heads.padding), 2, 1, group=group)
    key, value = (
        gather_seq_scatter_heads(_pad_heads(_repeat_heads(x, heads.repeats), heads.padding), 2, 1, group=group)
        for x in (key, value)
    )
    own: dict[str, Any] = {"num_key_value_groups": heads.groups}
    if isinstance(kwargs.get("s_aux"), Tensor):
        kwargs["s_aux"] = slice_input_tensor(kwargs["s_aux"], 0, group=group)
    if isinstance(getattr(module, "sinks", None), Tensor):
        own["sinks"] = slice_input_tensor(module.sinks, 0, group=group)
    output, _ = attention(_ModuleView(module, own), query, key, value, attention_mask, **kwargs)
    return gather_heads_scatter_seq(output, 2, 1, group)[:, :, :count].contiguous(), None


class _ModuleView:
    """A module with other values for some of its attributes."""

    def __init__(self, module: Any, own: dict[str, Any]) -> None:
        self.__dict__.update(own)
        self.__dict__["_module"] = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_module"], name)


def _divide_heads(queries: int, keys: int, ranks: int) -> _Heads:
    shared = queries // keys
    if queries % ranks:
        return _Heads(shared, -queries % ranks, 1)
    repeats = ranks // gcd(keys, ranks)
    return _Heads(repeats, 0, shared // repeats)


def _repeat_heads(x: Tensor, repeats: int) -> Tensor:
    return x.repeat_interleave(repeats, dim=1) if repeats > 1 else x


def _pad_heads(x: Tensor, heads: int) -> Tensor:
    return F.pad(x, (0, 0, 0, 0, 0, heads)) if heads else x


def _check_mask(mask: Any, length: int) -> None:
    """One for all queries is as good as one for each of them."""
    if not isinstance(mask, Tensor):
        return
    queries = mask.shape[-2] if mask.dim() > 2 else length
    if mask.shape[-1] != length or queries not in (1, length):
        raise RuntimeError(
            f"an attention mask of shape {tuple(mask.shape)} for sequences of length {length} under sequence"
            " parallelism: make it of whole_sequence_like(inputs_embeds) and the whole sequence's position ids."
        )
