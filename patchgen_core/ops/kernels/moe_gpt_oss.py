"""The experts of gpt-oss: ``moe_experts/gpt_oss``."""

from __future__ import annotations

import torch
from torch import Tensor

from patchgen_core.errors import PatchgenError
from patchgen_core.ops.kernels.moe import (
    check_choices,
    combine_rows,
    grouped_linear,
    sort_by_expert,
    tokens_by_expert,
)


def eager_experts(
    hidden_states: Tensor,
    top_k_index: Tensor,
    top_k_weights: Tensor,
    gate_up_proj: Tensor,
    gate_up_proj_bias: Tensor,
    down_proj: Tensor,
    down_proj_bias: Tensor,
    alpha: float,
    limit: float,
) -> Tensor:
    """``moe_experts/gpt_oss``: experts with biases, whose weights are stored inputs first, gate and up interleaved.

    Of each token's experts, the weighted sum of ``down((up + 1) * gate * sigmoid(alpha * gate))``, with the gate
    clamped from above and up from both sides. This is upstream's loop; it returns [T, H] in the dtype of
    ``hidden_states``.

    Args:
        hidden_states: [T, H].
        top_k_index: the experts of each token, [T, K]. An index that is not from 0 to E - 1 adds nothing.
        top_k_weights: their weights, [T, K], in any floating dtype.
        gate_up_proj: [E, H, 2 * I]; column 2 * i is a gate, and column 2 * i + 1 its up.
        gate_up_proj_bias: [E, 2 * I], likewise.
        down_proj: [E, I, H].
        down_proj_bias: [E, H].
        alpha: the factor of the gate within the sigmoid.
        limit: what the gate is clamped to from above, and up from both sides.
    """
    num_experts = _check(gate_up_proj, gate_up_proj_bias, down_proj, down_proj_bias, hidden_states.shape[1])
    check_choices(hidden_states, top_k_index, top_k_weights)
    output = torch.zeros_like(hidden_states)
    for expert, token, position in tokens_by_expert(top_k_index, num_experts):
        gate_up = hidden_states[token] @ gate_up_proj[expert] + gate_up_proj_bias[expert]
        current = _gated(gate_up, alpha, limit) @ down_proj[expert] + down_proj_bias[expert]
        weighted = current * top_k_weights[token, position, None]
        output.index_add_(0, token, weighted.to(output.dtype))
    return output


def grouped_mm_experts(
    hidden_states: Tensor,
    top_k_index: Tensor,
    top_k_weights: Tensor,
    gate_up_proj: Tensor,
    gate_up_proj_bias: Tensor,
    down_proj: Tensor,
    down_proj_bias: Tensor,
    alpha: float,
    limit: float,
) -> Tensor:
    """``moe_experts/gpt_oss`` by torch's grouped matrix multiply: all experts in two calls, without a loop.

    The arguments are those of :func:`eager_experts`, in bfloat16, float16 or float32. Nothing waits for the device,
    and the weights are not copied where their rows are multiples of 16 bytes. Tokens for experts of other ranks are
    computed and dropped. On CUDA it needs compute capability 8.0.
    """
    num_experts = _check(gate_up_proj, gate_up_proj_bias, down_proj, down_proj_bias, hidden_states.shape[1])
    check_choices(hidden_states, top_k_index, top_k_weights)
    groups = sort_by_expert(top_k_index, num_experts)
    rows = grouped_linear(hidden_states[groups.token], gate_up_proj.transpose(1, 2), groups.ends)
    gated = _gated(rows + gate_up_proj_bias.to(rows.dtype)[groups.expert], alpha, limit)
    rows = grouped_linear(gated, down_proj.transpose(1, 2), groups.ends)
    rows = rows + down_proj_bias.to(rows.dtype)[groups.expert]
    return combine_rows(rows, groups, top_k_index, top_k_weights, num_experts).to(hidden_states.dtype)


def _gated(gate_up: Tensor, alpha: float, limit: float) -> Tensor:
    gate, up = gate_up[..., ::2], gate_up[..., 1::2]
    gate, up = gate.clamp(max=limit), up.clamp(min=-limit, max=limit)
    return (up + 1) * (gate * torch.sigmoid(gate * alpha))


def _check(gate_up_proj: Tensor, gate_up_bias: Tensor, down_proj: Tensor, down_bias: Tensor, hidden: int) -> int:
    """The number of experts; refuses shapes that do not fit."""
    experts, inner, _ = down_proj.shape
    expected_shapes = ((experts, hidden, 2 * inner), (experts, 2 * inner), (experts, inner, hidden), (experts, hidden))
    shapes = tuple(tuple(one.shape) for one in (gate_up_proj, gate_up_bias, down_proj, down_bias))
    if shapes != expected_shapes:
        raise PatchgenError(
            f"moe_experts/gpt_oss: weights and biases of shapes {shapes} must be (experts, {hidden}, 2 * size), "
            f"(experts, 2 * size), (experts, size, {hidden}) and (experts, {hidden})"
        )
    return experts
