"""Ascend's fused operators, in the calling conventions of :mod:`patchgen_core.ops.kernels.eager`."""

from __future__ import annotations

import torch
import torch_npu
from torch import Tensor

from patchgen_core.ops.kernels.eager import check_gated, check_rotary
from patchgen_core.ops.losses import widen


def rms_norm(hidden_states: Tensor, weight: Tensor, eps: float) -> Tensor:
    """``rms_norm/standard``, as :func:`patchgen_core.ops.kernels.eager.rms_norm`."""
    return torch_npu.npu_rms_norm(hidden_states, weight, epsilon=eps)[0]  # type: ignore[no-any-return]


def rms_norm_one_plus_weight(hidden_states: Tensor, weight: Tensor, eps: float) -> Tensor:
    """``rms_norm/one_plus_weight``, as :func:`patchgen_core.ops.kernels.eager.rms_norm_one_plus_weight`."""
    normed: Tensor = torch_npu.npu_rms_norm(widen(hidden_states), 1.0 + widen(weight), epsilon=eps)[0]
    return normed.to(hidden_states.dtype)


def rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
    """``rotary_pos_emb/full``, as :func:`patchgen_core.ops.kernels.eager.rotary_pos_emb`."""
    check_rotary(q, k, cos, sin, unsqueeze_dim)
    cos, sin = cos.unsqueeze(unsqueeze_dim).to(q.dtype), sin.unsqueeze(unsqueeze_dim).to(q.dtype)
    return torch_npu.npu_rotary_mul(q, cos, sin), torch_npu.npu_rotary_mul(k, cos, sin)


def swiglu_mlp(gate: Tensor, up: Tensor) -> Tensor:
    """``swiglu_mlp/standard``, as :func:`patchgen_core.ops.kernels.eager.swiglu_mlp`."""
    check_gated(gate, up)
    return torch_npu.npu_swiglu(torch.cat((gate, up), dim=-1), dim=-1)  # type: ignore[no-any-return]
