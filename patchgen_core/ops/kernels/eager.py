"""The eager implementations: upstream's own formulas, in the calling conventions that every implementation shares.

Their numbers are upstream's bit for bit in float32 and bfloat16. Where upstream computes in float32 they compute in
float64 when they are given that, which makes them the reference of the kernel parity check. No implementation
overwrites what it is given.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from patchgen_core.errors import PatchgenError
from patchgen_core.ops.losses import IGNORE, cross_entropy, widen


def rms_norm(hidden_states: Tensor, weight: Tensor, eps: float) -> Tensor:
    """``rms_norm/standard``: Llama's RMSNorm of [..., H] with a weight [H]; ``eps`` is added to the mean of squares.

    [..., H] in the dtype of ``hidden_states``: normalized in float32, cast back, multiplied by the weight.
    """
    return (weight * _normalize(hidden_states, eps).to(hidden_states.dtype)).to(hidden_states.dtype)


def rms_norm_one_plus_weight(hidden_states: Tensor, weight: Tensor, eps: float) -> Tensor:
    """``rms_norm/one_plus_weight``: the RMSNorm of Gemma and Qwen3-Next, whose weight is stored less one.

    The same arguments as :func:`rms_norm`; all is computed in float32 and cast back at the end.
    """
    return (_normalize(hidden_states, eps) * (1.0 + widen(weight))).to(hidden_states.dtype)


def layer_norm(hidden_states: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """``layer_norm/standard``: ``torch.nn.LayerNorm`` over the last dimension of [..., H]; weight and bias are [H].

    ``eps`` is added to the variance. The result is [..., H] in the dtype of ``hidden_states``.
    """
    return F.layer_norm(hidden_states, weight.shape, weight, bias, eps)


def rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
    """``rotary_pos_emb/full``: Llama's rotation of whole heads by halves; ``q`` and ``k`` keep values and dtypes.

    Args:
        q: queries, [B, heads, S, D]; [B, S, heads, D] with ``unsqueeze_dim=2``.
        k: keys, likewise, with as many heads as there are of keys.
        cos, sin: [B, S, D], or [1, S, D] for all of the batch. The second half of D repeats the first, as
            ``cat((freqs, freqs), -1)`` makes it; implementations may read the first half alone, and give no
            gradient.
        unsqueeze_dim: the dimension of q and k that counts heads, 1 or 2.

    Raises:
        PatchgenError: the shapes do not fit, such as a rotation of part of a head.
    """
    check_rotary(q, k, cos, sin, unsqueeze_dim)
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return ((q * cos) + (_rotate_half(q) * sin)).to(q.dtype), ((k * cos) + (_rotate_half(k) * sin)).to(k.dtype)


def swiglu_mlp(gate: Tensor, up: Tensor) -> Tensor:
    """``swiglu_mlp/standard``: ``silu(gate) * up``, of [..., I] and [..., I] of one dtype."""
    check_gated(gate, up)
    return F.silu(gate) * up


def geglu_mlp(gate: Tensor, up: Tensor) -> Tensor:
    """``geglu_mlp/standard``: ``gelu(gate) * up`` with GELU's tanh form, of [..., I] and [..., I] of one dtype."""
    check_gated(gate, up)
    return F.gelu(gate, approximate="tanh") * up


def cross_entropy_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    ignore_index: int = IGNORE,
    num_items_in_batch: int | Tensor | None = None,
) -> Tensor:
    """``cross_entropy_loss/standard``: of logits [N, V], which keep their values, and int64 labels [N], not shifted.

    A scalar of float32: the sum divided by ``num_items_in_batch``, or without it the mean, which is NaN when every
    label is ``ignore_index``.
    """
    return cross_entropy(logits, labels, ignore_index, num_items_in_batch)


def check_rotary(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int) -> None:
    """Refuse what :func:`rotary_pos_emb` does not take."""
    if unsqueeze_dim not in (1, 2) or q.dim() != 4 or k.dim() != 4:
        shapes = f"{tuple(q.shape)} and {tuple(k.shape)}"
        raise PatchgenError(
            f"rotary_pos_emb/full takes q and k of 4 dimensions and unsqueeze_dim 1 or 2, not {shapes}"
        )
    positions = q.shape[3 - unsqueeze_dim]
    fits = q.shape[0] == k.shape[0] and k.shape[3 - unsqueeze_dim] == positions and q.shape[3] == k.shape[3]
    fits = fits and cos.shape == sin.shape and cos.dim() == 3 and cos.shape[0] in (1, q.shape[0])
    if not (fits and cos.shape[1] == positions and cos.shape[2] == q.shape[3] and q.shape[3] % 2 == 0):
        shapes = ", ".join(f"{name} {tuple(t.shape)}" for name, t in (("q", q), ("k", k), ("cos", cos), ("sin", sin)))
        raise PatchgenError(
            f"rotary_pos_emb/full does not fit {shapes} with unsqueeze_dim={unsqueeze_dim}",
            None,
            "It rotates whole heads: cos and sin are [batch, sequence, head size]. Where a model rotates a part of "
            "each head, call it with that part.",
        )


def check_gated(gate: Tensor, up: Tensor) -> None:
    """Refuse a gate and an up projection that differ in shape or dtype."""
    if gate.shape != up.shape or gate.dtype != up.dtype:
        one, other = (f"{tuple(tensor.shape)} of {tensor.dtype}" for tensor in (gate, up))
        raise PatchgenError(f"gate and up must be alike: gate is {one}, up {other}")


def _normalize(hidden_states: Tensor, eps: float) -> Tensor:
    wide = widen(hidden_states)
    return wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)


def _rotate_half(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)
