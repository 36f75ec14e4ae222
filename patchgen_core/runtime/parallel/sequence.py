"""Sequence parallelism in the way of DeepSpeed-Ulysses: each rank has a slice of every sequence, and in attention
the whole sequence and a part of the heads.

Ranks have slices of equal length, in the order of their ranks; what is missing is padded. All functions return what
they are given where sequences are not split. They are differentiable: the gradient of a part is the sum of what all
ranks made of it. (https://arxiv.org/abs/2309.14509)
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

from patchgen_core.errors import PatchgenError
from patchgen_core.runtime.parallel.collectives import exchange_dimensions, gather_dimension
from patchgen_core.runtime.parallel.state import get_parallel_state


def gather_seq_scatter_heads(
    x: Tensor, seq_dim: int, head_dim: int, unpadded_dim_size: int = 0, group: dist.ProcessGroup | None = None
) -> Tensor:
    """From a slice of the sequence with all heads to the whole sequence with this rank's heads.

    Args:
        x: such as [B, heads, S / sp, D].
        head_dim: the dimension to split: heads, or hidden states. Its length divides by the number of ranks;
            :func:`~patchgen_core.runtime.parallel.sequence_parallel_attention` sees to that for heads.
        unpadded_dim_size: the length of the whole sequence without padding, which is cut off; 0 leaves it on.

    Raises:
        PatchgenError: the heads do not divide by the number of ranks.
    """
    ranks = sp_group_of(group)
    if ranks is None:
        return x
    _check_length(x, head_dim, ranks.size(), "heads")
    whole = exchange_dimensions(x, head_dim % x.dim(), seq_dim % x.dim(), ranks)
    return whole.narrow(seq_dim, 0, unpadded_dim_size) if unpadded_dim_size else whole


def gather_heads_scatter_seq(x: Tensor, head_dim: int, seq_dim: int, group: dist.ProcessGroup | None = None) -> Tensor:
    """From the whole sequence with this rank's heads to a slice of it with all heads.

    A sequence that does not divide by the number of ranks is padded with zeros first.
    """
    ranks = sp_group_of(group)
    if ranks is None:
        return x
    padded = _pad(x, seq_dim, -x.shape[seq_dim] % ranks.size(), 0)
    return exchange_dimensions(padded, seq_dim % x.dim(), head_dim % x.dim(), ranks)


def slice_input_tensor(
    x: Tensor, dim: int, padding: bool = True, padding_value: float = 0, group: dist.ProcessGroup | None = None
) -> Tensor:
    """This rank's slice of a tensor that every rank has whole.

    Args:
        padding: whether a length that does not divide by the number of ranks is padded with ``padding_value``.

    Raises:
        PatchgenError: the length does not divide, and is not to be padded.
    """
    ranks = sp_group_of(group)
    if ranks is None:
        return x
    if not padding:
        _check_length(x, dim, ranks.size(), "entries")
    return _slice(_pad(x, dim, -x.shape[dim] % ranks.size(), padding_value), dim, ranks)


def gather_outputs(
    x: Tensor,
    gather_dim: int,
    padding_dim: int | None = None,
    unpad_dim_size: int | None = None,
    group: dist.ProcessGroup | None = None,
) -> Tensor:
    """The slices of all ranks, put together along a dimension, on every rank.

    Args:
        padding_dim: a dimension that was padded, which is cut to the length ``unpad_dim_size``.
    """
    ranks = sp_group_of(group)
    if ranks is None:
        return x
    whole = gather_dimension(x, gather_dim % x.dim(), ranks)
    if padding_dim is None or unpad_dim_size is None:
        return whole
    return whole.narrow(padding_dim, 0, unpad_dim_size)


def sp_pad_and_slice(x: Tensor, dim: int = -1, pad_value: float = 0, pad_scale: int = 1) -> Tensor:
    """This rank's slice of a tensor that every rank has whole, of a length that is a multiple of ``pad_scale``.

    A vision tower that merges four patches into one token takes ``pad_scale=4``: no four are on two ranks.
    """
    ranks = sp_group_of(None)
    if ranks is None:
        return x
    return _slice(_pad(x, dim, sp_padding(x.shape[dim], pad_scale), pad_value), dim, ranks)


def sp_padding(length: int, pad_scale: int = 1) -> int:
    """How many entries :func:`sp_pad_and_slice` pads a length with."""
    state = get_parallel_state()
    return -length % (state.sp_size * pad_scale) if state.sp_enabled else 0


def unpad_tensor(x: Tensor, dim: int, padding_size: int) -> Tensor:
    """A tensor without the last ``padding_size`` entries of a dimension."""
    return x.narrow(dim, 0, x.shape[dim] - padding_size) if padding_size else x


def pad_cu_seqlens(cu_seqlens: Tensor, padding_size: int) -> Tensor:
    """The ends of packed sequences with one more for the padding, so that no sequence attends to it."""
    return torch.cat((cu_seqlens, cu_seqlens[-1:] + padding_size)) if padding_size else cu_seqlens


def sp_group_of(group: dist.ProcessGroup | None) -> dist.ProcessGroup | None:
    """The group to exchange with: the one given, else that of the state; None when it is of one rank."""
    if group is None:
        state = get_parallel_state()
        return state.sp_group if state.sp_enabled else None
    return group if group.size() > 1 else None


def _slice(x: Tensor, dim: int, group: dist.ProcessGroup) -> Tensor:
    length = x.shape[dim] // group.size()
    return x.narrow(dim, group.rank() * length, length).contiguous()


def _pad(x: Tensor, dim: int, entries: int, value: float) -> Tensor:
    if not entries:
        return x
    return F.pad(x, (0, 0) * (x.dim() - 1 - dim % x.dim()) + (0, entries), value=value)


def _check_length(x: Tensor, dim: int, ranks: int, what: str) -> None:
    if x.shape[dim] % ranks:
        raise PatchgenError(
            f"the {x.shape[dim]} {what} in dimension {dim} of a tensor of shape {tuple(x.shape)} do not divide by the"
            f" {ranks} ranks of sequence parallelism",
            hint="sequence_parallel_attention repeats and pads heads; slice_input_tensor pads by default.",
        )
