"""Liger's Triton kernels, in the calling conventions of :mod:`patchgen_core.ops.kernels.eager`.

Liger writes results over what it is given: rotated queries over the queries, gradients over activations and over the
gradients that come in. That saves memory, and corrupts whatever else holds these tensors, out of autograd's sight. So
kernels that do so work on copies here: a tensor that is passed keeps its values, and a graph can be run backward more
than once.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed.tensor  # an attribute of torch that Liger reads, which newer versions set at import
from liger_kernel.ops.geglu import geglu_backward, geglu_forward
from liger_kernel.ops.layer_norm import layer_norm_backward, layer_norm_forward
from liger_kernel.ops.rms_norm import rms_norm_backward, rms_norm_forward
from liger_kernel.ops.rope import rope_backward, rope_forward
from liger_kernel.ops.swiglu import swiglu_backward, swiglu_forward
from liger_kernel.ops.utils import calculate_settings
from torch import Tensor
from torch.autograd.function import once_differentiable

from patchgen_core.errors import PatchgenError
from patchgen_core.ops.kernels.eager import check_gated, check_rotary
from patchgen_core.ops.kernels.operators import operator

_LLAMA, _GEMMA = 0, 1
"""Liger's numbers of what it computes in float32: the norm alone, or all."""

_GATED = {"silu": (swiglu_forward, swiglu_backward), "gelu": (geglu_forward, geglu_backward)}
"""Liger's kernels of gated layers, forward and backward, by their activation."""


def rms_norm(hidden_states: Tensor, weight: Tensor, eps: float) -> Tensor:
    """``rms_norm/standard``, as :func:`patchgen_core.ops.kernels.eager.rms_norm`."""
    return _rms_norm(hidden_states, weight, eps, 0.0, _LLAMA)


def rms_norm_one_plus_weight(hidden_states: Tensor, weight: Tensor, eps: float) -> Tensor:
    """``rms_norm/one_plus_weight``, as :func:`patchgen_core.ops.kernels.eager.rms_norm_one_plus_weight`."""
    return _rms_norm(hidden_states, weight, eps, 1.0, _GEMMA)


def _rms_norm(hidden_states: Tensor, weight: Tensor, eps: float, offset: float, casting: int) -> Tensor:
    refuse_float64(hidden_states)
    normed: Tensor = _RMSNorm.apply(hidden_states, weight, eps, offset, casting)  # type: ignore[no-untyped-call]
    return normed


def layer_norm(hidden_states: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """``layer_norm/standard``, as :func:`patchgen_core.ops.kernels.eager.layer_norm`."""
    refuse_float64(hidden_states)
    bias = torch.zeros_like(weight) if bias is None else bias
    normed: Tensor = _LayerNorm.apply(hidden_states, weight, bias, eps)  # type: ignore[no-untyped-call]
    return normed


def rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
    """``rotary_pos_emb/full``; reads half of cos and sin, and refuses (PatchgenError) those that want a gradient."""
    check_rotary(q, k, cos, sin, unsqueeze_dim)
    refuse_float64(q)
    if torch.is_grad_enabled() and (cos.requires_grad or sin.requires_grad):
        raise PatchgenError("Liger's rotary kernel gives no gradient for cos and sin: detach them, or use eager")
    if unsqueeze_dim == 2:
        q, k = q.transpose(1, 2), k.transpose(1, 2)
    dtype = torch.promote_types(cos.dtype, q.dtype)  # the kernel computes in the dtype of cos
    q, k = _Rotary.apply(q, k, cos.to(dtype), sin.to(dtype))  # type: ignore[no-untyped-call]
    return (q.transpose(1, 2), k.transpose(1, 2)) if unsqueeze_dim == 2 else (q, k)


def swiglu_mlp(gate: Tensor, up: Tensor) -> Tensor:
    """``swiglu_mlp/standard``, as :func:`patchgen_core.ops.kernels.eager.swiglu_mlp`."""
    return _gated(gate, up, "silu")


def geglu_mlp(gate: Tensor, up: Tensor) -> Tensor:
    """``geglu_mlp/standard``, as :func:`patchgen_core.ops.kernels.eager.geglu_mlp`."""
    return _gated(gate, up, "gelu")


def _gated(gate: Tensor, up: Tensor, activation: str) -> Tensor:
    check_gated(gate, up)
    refuse_float64(gate)
    product: Tensor = _Gated.apply(gate, up, activation)  # type: ignore[no-untyped-call]
    return product


def refuse_float64(tensor: Tensor) -> None:
    """Refuse what Liger would take and compute in float32."""
    if tensor.dtype == torch.float64:
        raise PatchgenError("Liger's kernels compute in float32 at most, and were given float64: use eager")


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float, offset: float, casting: int) -> Tensor:
        x, weight = x.contiguous(), weight.contiguous()
        output, deviation = liger_rms_norm(x, weight, eps, offset, casting)
        ctx.save_for_backward(x, weight, deviation)
        ctx.offset, ctx.casting = offset, casting
        return output  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        gradients = liger_rms_norm_backward(*grads, *ctx.saved_tensors, ctx.offset, ctx.casting)
        return *gradients, None, None, None


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
        output, mean, deviation = liger_layer_norm(x, weight, bias, eps)
        ctx.save_for_backward(x, weight, bias, mean, deviation)
        return output  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return *liger_layer_norm_backward(*grads, *ctx.saved_tensors), None


class _Rotary(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(cos, sin)
        rotated: tuple[Tensor, Tensor] = liger_rotary(q, k, cos, sin)
        return rotated

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return *liger_rotary_backward(*grads, *ctx.saved_tensors), None, None


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor, activation: str) -> Tensor:
        gate, up = gate.contiguous(), up.contiguous()
        ctx.save_for_backward(gate, up)
        ctx.activation = activation
        return liger_gated(gate, up, activation)  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return *liger_gated_backward(*grads, *ctx.saved_tensors, ctx.activation), None


def _like_first(first: Tensor, *_: Any) -> Tensor:
    return first.new_empty(first.shape)


def _like_second_and_third(grad: Tensor, first: Tensor, second: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return first.new_empty(first.shape), second.new_empty(second.shape)


def _rows(x: Tensor) -> Tensor:
    """One float32 for each row: what norms keep of the forward pass."""
    return x.new_empty(x.numel() // x.shape[-1], dtype=torch.float32)


def _own(view: Tensor) -> Tensor:
    """What Liger returns as a view, as a tensor that is none: a view from an autograd function takes no ``*=``."""
    values: Tensor = torch.ops.aten._unsafe_view(view, view.shape)
    return values


@operator(lambda x, *_: (_like_first(x), _rows(x)))
def liger_rms_norm(x: Tensor, weight: Tensor, eps: float, offset: float, casting: int) -> tuple[Tensor, Tensor]:
    """The normalized rows, and one over the root of their mean squares."""
    output, _, deviation, *_ = rms_norm_forward(x, weight, eps, offset, casting, None)
    return _own(output), deviation


@operator(_like_second_and_third)
def liger_rms_norm_backward(
    grad: Tensor, x: Tensor, weight: Tensor, deviation: Tensor, offset: float, casting: int
) -> tuple[Tensor, Tensor]:
    """The gradients of rows and weight."""
    width = x.shape[-1]
    settings = (casting, *calculate_settings(width), False, None)
    d_x, d_weight = rms_norm_backward(grad.contiguous(), x.view(-1, width), weight, deviation, offset, *settings)
    return d_x, d_weight


@operator(lambda x, *_: (_like_first(x), _rows(x), _rows(x)))
def liger_layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """The normalized rows, their means, and one over their standard deviations."""
    output, _, mean, deviation, *_ = layer_norm_forward(x, weight, bias, eps)
    return _own(output), mean, deviation


@operator(lambda grad, x, weight, bias, *_: (_like_first(x), _like_first(weight), _like_first(bias)))
def liger_layer_norm_backward(
    grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, deviation: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of rows, weight and bias."""
    rows = x.view(-1, x.shape[-1])
    d_x, d_weight, d_bias = layer_norm_backward(grad.contiguous(), rows, weight, bias, mean, deviation)
    return d_x, d_weight, d_bias


def _to_overwrite(heads: Tensor) -> Tensor:
    """A copy of [B, heads, S, D] in the layout that the rotary kernel works on in place, [B, S, heads, D]."""
    return heads.transpose(1, 2).clone(memory_format=torch.contiguous_format).transpose(1, 2)


def _like_heads(q: Tensor, k: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return _to_overwrite(q), _to_overwrite(k)


@operator(_like_heads)
def liger_rotary(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """The rotated queries and keys."""
    q, k, *_ = rope_forward(_to_overwrite(q), _to_overwrite(k), cos, sin)
    return _own(q), _own(k)


@operator(_like_heads)
def liger_rotary_backward(d_q: Tensor, d_k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of queries and keys."""
    d_q, d_k = rope_backward(_to_overwrite(d_q), _to_overwrite(d_k), cos, sin)
    return d_q, d_k


@operator(_like_first)
def liger_gated(gate: Tensor, up: Tensor, activation: str) -> Tensor:
    """``silu(gate) * up`` or ``gelu(gate) * up``."""
    forward, _ = _GATED[activation]
    return _own(forward(gate, up)[2])


@operator(_like_second_and_third)
def liger_gated_backward(grad: Tensor, gate: Tensor, up: Tensor, activation: str) -> tuple[Tensor, Tensor]:
    """The gradients of gate and up."""
    _, backward = _GATED[activation]
    d_gate, d_up = backward(gate.clone(), up.clone(), grad.contiguous())
    return d_gate, d_up
