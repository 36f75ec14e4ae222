"""Operators of ``torch_npu`` in plain torch: the semantics that Ascend documents, for machines without an NPU.

Argument order, layouts and what is returned are those of ``torch_npu``; an argument that the operators refuse raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

_LAYOUTS = ("BSH", "SBH", "BNSD", "BSND", "TND")
_FAR = 2147483647
_LEFT_UP, _RIGHT_DOWN, _BAND = 2, 3, 4


def npu_rms_norm(self: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    """``self * rstd * gamma`` over the last dimensions, those of ``gamma``, and ``rstd``, one over the root of the
    mean square: computed in float32 at least, in which ``rstd`` stays; these dimensions of it have size 1."""
    if self.shape[self.dim() - gamma.dim() :] != gamma.shape:
        raise ValueError(f"npu_rms_norm: gamma {list(gamma.shape)} is not the end of {list(self.shape)}")
    wide = self.to(torch.promote_types(self.dtype, torch.float32))
    dims = tuple(range(-gamma.dim(), 0))
    rstd = torch.rsqrt(wide.pow(2).mean(dims, keepdim=True) + epsilon)
    return (wide * rstd * gamma).to(self.dtype), rstd


def npu_swiglu(self: Tensor, dim: int = -1) -> Tensor:
    """``silu(first half) * second half``, halves along ``dim``."""
    if self.shape[dim] % 2:
        raise ValueError(f"npu_swiglu: dimension {dim} of {list(self.shape)} has no halves")
    gate, up = self.chunk(2, dim=dim)
    return functional.silu(gate) * up


def npu_rotary_mul(self: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half") -> Tensor:
    """``self * r1 + rotated * r2``, with ``r1`` the cosines and ``r2`` the sines, all of four dimensions.

    "half" rotates (first half, second half) of the last dimension to (-second, first); "interleave" rotates
    neighbours so.
    """
    if not self.dim() == r1.dim() == r2.dim() == 4 or not self.shape[-1] == r1.shape[-1] == r2.shape[-1]:
        shapes = ", ".join(str(list(value.shape)) for value in (self, r1, r2))
        raise ValueError(f"npu_rotary_mul takes four dimensions, of which the last are the same size: {shapes}")
    if rotary_mode == "half":
        first, second = self.chunk(2, dim=-1)
        rotated = torch.cat((-second, first), dim=-1)
    elif rotary_mode == "interleave":
        rotated = torch.stack((-self[..., 1::2], self[..., ::2]), dim=-1).flatten(-2)
    else:
        raise ValueError(f"npu_rotary_mul has no rotary_mode {rotary_mode!r}")
    return self * r1 + rotated * r2


def npu_fusion_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    input_layout: str,
    pse: Tensor | None = None,
    padding_mask: Tensor | None = None,
    atten_mask: Tensor | None = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = _FAR,
    next_tockens: int = _FAR,
    inner_precise: int = 0,
    prefix: Sequence[int] | None = None,
    actual_seq_qlen: Sequence[int] | None = None,
    actual_seq_kvlen: Sequence[int] | None = None,
    sparse_mode: int = 0,
    gen_mask_parallel: bool = True,
    sync: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor, int, int, int]:
    """``dropout(softmax(query key^T * scale + pse)) value``, first of seven results; the next two are the maximum and
    the sum of the softmax, and the rest is for the backward pass.

    ``head_num`` is that of the query; keys may have fewer. ``atten_mask`` is True where a key is not seen.
    ``sparse_mode`` 0 and 1 take it as it is, 2 is causal from the first token and 3 from the last one, 4 a band of
    ``pre_tockens`` back and ``next_tockens`` ahead from the last one; these three want a mask as well, whose values
    do not count. In the layout TND, ``actual_seq_qlen`` and ``actual_seq_kvlen`` have the ends of the sequences,
    without a leading 0. Dropout keeps a share ``keep_prob``.
    """
    if input_layout not in _LAYOUTS or sparse_mode not in range(_BAND + 1) or prefix is not None:
        raise ValueError(f"npu_fusion_attention: layout {input_layout!r}, sparse_mode {sparse_mode}, prefix {prefix}")
    if sparse_mode >= _LEFT_UP and atten_mask is None:
        raise ValueError(f"npu_fusion_attention: sparse_mode {sparse_mode} wants an atten_mask")
    size = query.shape[-1] // (head_num if input_layout in ("BSH", "SBH") else 1)
    q, k, v = (_to_bnsd(tensor, input_layout, size) for tensor in (query, key, value))
    if q.shape[1] != head_num:
        raise ValueError(f"npu_fusion_attention: head_num is {head_num}, and the query has {q.shape[1]} heads")
    k, v = (tensor.repeat_interleave(head_num // tensor.shape[1], dim=1) for tensor in (k, v))
    scores = torch.einsum("bnqd,bnkd->bnqk", q, k) * scale
    scores = scores if pse is None else scores + pse
    hidden = _hidden(
        q.shape[2], k.shape[2], actual_seq_qlen, actual_seq_kvlen, (pre_tockens, next_tockens, sparse_mode)
    )
    if atten_mask is not None and sparse_mode < _LEFT_UP:
        hidden = hidden | atten_mask.bool()
    scores = scores.masked_fill(hidden.to(scores.device), torch.finfo(scores.dtype).min)
    largest = scores.amax(-1, keepdim=True)
    weights = torch.exp(scores - largest) * ~hidden
    total = weights.sum(-1, keepdim=True)
    weights = functional.dropout(weights / total.clamp_min(torch.finfo(total.dtype).tiny), 1.0 - keep_prob)
    output = _from_bnsd(torch.einsum("bnqk,bnkd->bnqd", weights, v), input_layout)
    return output, largest.expand(*largest.shape[:-1], 8), total.expand(*total.shape[:-1], 8), query[:0], 0, 0, 0


def npu_grouped_matmul(
    x: Sequence[Tensor],
    weight: Sequence[Tensor],
    *,
    bias: Sequence[Tensor] | None = None,
    group_list: Tensor | Sequence[int] | None = None,
    split_item: int = 0,
    group_type: int = -1,
    group_list_type: int = 0,
    output_dtype: torch.dtype | None = None,
) -> list[Tensor]:
    """Products of groups. The result is a list: of one tensor where ``split_item`` is 2 or 3, else of one a group.

    ``group_type`` -1 multiplies ``x[i]`` and ``weight[i]``; 0 cuts the rows of the only ``x`` by ``group_list``, which
    has the ends of the groups, or their sizes where ``group_list_type`` is 1, and multiplies them with the weights, a
    list of matrices or one stack (groups, k, n); 2 cuts the dimension that is summed over, of ``x`` (m, k) and
    ``weight`` (k, n), and gives a stack (groups, m, n).
    """
    if not isinstance(x, (list, tuple)) or not isinstance(weight, (list, tuple)):
        raise TypeError("npu_grouped_matmul takes lists of tensors")
    if group_type == -1:
        products = [one @ other for one, other in zip(x, weight, strict=True)]
    else:
        if group_list is None or len(x) != 1:
            raise ValueError("npu_grouped_matmul: one x and a group_list go with this group_type")
        numbers = torch.as_tensor(group_list)
        sizes = (numbers if group_list_type == 1 else numbers.diff(prepend=numbers.new_zeros(1))).tolist()
        if group_type == 2:
            pairs = zip(x[0].split(sizes, dim=1), weight[0].split(sizes, dim=0), strict=True)
            return [torch.stack([one @ other for one, other in pairs])]
        matrices = weight[0].unbind() if len(weight) == 1 and weight[0].dim() == 3 else weight
        products = [one @ other for one, other in zip(x[0].split(sizes), matrices, strict=True)]
    if bias is not None:
        rows = bias[0].unbind() if len(bias) == 1 and bias[0].dim() == 2 else bias
        products = [one + other for one, other in zip(products, rows, strict=True)]
    products = [one.to(output_dtype or one.dtype) for one in products]
    return [torch.cat(products)] if split_item in (2, 3) else products


def npu_moe_token_permute(
    tokens: Tensor, indices: Tensor, num_out_tokens: int | None = None, padded_mode: bool = False
) -> tuple[Tensor, Tensor]:
    """Tokens (tokens, size) by the experts in ``indices`` (tokens, k), in order and stable, each k times; and for each
    token and choice the row to which it went, int32, flat."""
    if padded_mode:
        raise ValueError("npu_moe_token_permute: padded_mode must be False")
    choices = indices.reshape(len(tokens), -1)
    order = torch.argsort(choices.flatten(), stable=True)
    rows = torch.argsort(order).to(torch.int32)
    return tokens[(order // choices.shape[1])[: num_out_tokens or None]], rows


def npu_moe_token_unpermute(
    permuted_tokens: Tensor,
    sorted_indices: Tensor,
    probs: Tensor | None = None,
    padded_mode: bool = False,
    restore_shape: torch.Size | None = None,
) -> Tensor:
    """The reverse: for each token the sum of its k rows, by ``probs`` (tokens, k), or its one row without."""
    if padded_mode:
        raise ValueError("npu_moe_token_unpermute: padded_mode must be False")
    choices = 1 if probs is None else probs.shape[1]
    rows = permuted_tokens[sorted_indices.long()].reshape(-1, choices, permuted_tokens.shape[-1])
    summed = (rows if probs is None else rows * probs.unsqueeze(-1)).sum(1)
    return summed.to(permuted_tokens.dtype)


OPERATORS: Mapping[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        npu_rms_norm,
        npu_swiglu,
        npu_rotary_mul,
        npu_fusion_attention,
        npu_grouped_matmul,
        npu_moe_token_permute,
        npu_moe_token_unpermute,
    )
}
"""The operators by their names in ``torch_npu``."""


def _to_bnsd(tensor: Tensor, layout: str, size: int) -> Tensor:
    if layout == "TND":
        return tensor.transpose(0, 1)[None]
    if layout in ("BSH", "SBH"):
        rows = tensor if layout == "BSH" else tensor.transpose(0, 1)
        return rows.reshape(*rows.shape[:2], -1, size).transpose(1, 2)
    return tensor if layout == "BNSD" else tensor.transpose(1, 2)


def _from_bnsd(tensor: Tensor, layout: str) -> Tensor:
    if layout == "BNSD":
        return tensor
    rows = tensor.transpose(1, 2)
    if layout == "TND":
        return rows[0]
    if layout == "BSND":
        return rows
    return rows.flatten(2) if layout == "BSH" else rows.flatten(2).transpose(0, 1)


def _hidden(
    queries: int,
    keys: int,
    ends_q: Sequence[int] | None,
    ends_k: Sequence[int] | None,
    sparse: tuple[int, int, int],
) -> Tensor:
    """True where a query (queries, keys) does not see a key: by its place, and in another sequence."""
    back, ahead, mode = sparse
    hidden = torch.ones(queries, keys, dtype=torch.bool)
    bounds_q, bounds_k = [0, *(ends_q or (queries,))], [0, *(ends_k or (keys,))]
    for index in range(1, len(bounds_q)):
        rows, columns = range(bounds_q[index - 1], bounds_q[index]), range(bounds_k[index - 1], bounds_k[index])
        distance = torch.arange(len(columns))[None] - torch.arange(len(rows))[:, None]
        if mode in (_RIGHT_DOWN, _BAND):
            distance = distance - (len(columns) - len(rows))
        behind = torch.zeros_like(distance, dtype=torch.bool)
        if mode in (_LEFT_UP, _RIGHT_DOWN):
            behind = distance > 0
        elif mode in (0, _BAND):
            behind = (distance > ahead) | (distance < -back)
        hidden[rows.start : rows.stop, columns.start : columns.stop] = behind
    return hidden
