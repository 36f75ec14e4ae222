"""The experts of a mixture: ``moe_experts/standard``, and what its variants share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from patchgen_core.errors import PatchgenError
from patchgen_core.ops.kernels.operators import operator

_ALIGNED_BYTES = 16
"""What torch's grouped matrix multiply wants the strides of its matrices to be multiples of."""


def eager_experts(
    hidden_states: Tensor,
    top_k_index: Tensor,
    top_k_weights: Tensor,
    gate_up_proj: Tensor,
    down_proj: Tensor,
    act_fn: Callable[[Tensor], Tensor],
) -> Tensor:
    """``moe_experts/standard``: each token's weighted sum of ``down(act(gate) * up)`` of its experts.

    This is upstream's loop over the experts that got tokens. It returns [T, H] in the dtype of ``hidden_states``.

    Args:
        hidden_states: [T, H].
        top_k_index: the experts of each token, [T, K]. An index that is not from 0 to E - 1 is no expert and adds
            nothing: upstream marks the experts of other ranks by E.
        top_k_weights: their weights, [T, K], in any floating dtype.
        gate_up_proj: [E, 2 * I, H]; an expert's gate is the first I rows.
        down_proj: [E, H, I].
        act_fn: the activation of the gate, elementwise.
    """
    num_experts = _check(hidden_states, top_k_index, top_k_weights, gate_up_proj, down_proj)
    output = torch.zeros_like(hidden_states)
    for expert, token, position in tokens_by_expert(top_k_index, num_experts):
        gate, up = F.linear(hidden_states[token], gate_up_proj[expert]).chunk(2, dim=-1)
        current = F.linear(act_fn(gate) * up, down_proj[expert]) * top_k_weights[token, position, None]
        output.index_add_(0, token, current.to(output.dtype))
    return output


def grouped_mm_experts(
    hidden_states: Tensor,
    top_k_index: Tensor,
    top_k_weights: Tensor,
    gate_up_proj: Tensor,
    down_proj: Tensor,
    act_fn: Callable[[Tensor], Tensor],
) -> Tensor:
    """``moe_experts/standard`` by torch's grouped matrix multiply: all experts in two calls, without a loop.

    The arguments are those of :func:`eager_experts`, in bfloat16, float16 or float32. Nothing waits for the device,
    the order of summation is fixed, and it compiles without a graph break. Sizes whose rows are no multiples of
    16 bytes are padded, which copies the weights in every call. Tokens for experts of other ranks are computed and
    dropped. On CUDA it needs compute capability 8.0.
    """
    num_experts = _check(hidden_states, top_k_index, top_k_weights, gate_up_proj, down_proj)
    groups = sort_by_expert(top_k_index, num_experts)
    gate, up = grouped_linear(hidden_states[groups.token], gate_up_proj, groups.ends).chunk(2, dim=-1)
    rows = grouped_linear(act_fn(gate) * up, down_proj, groups.ends)
    return combine_rows(rows, groups, top_k_index, top_k_weights, num_experts).to(hidden_states.dtype)


class ExpertGroups(NamedTuple):
    """The rows of all tokens and their chosen experts [T * K], sorted by expert.

    Attributes:
        expert: the expert of each row; one of another rank is the nearest that is here.
        token: the token of each row.
        order: where each row stands when tokens come one after the other.
        ends: where the rows of each expert end, [E] of int32.
    """

    expert: Tensor
    token: Tensor
    order: Tensor
    ends: Tensor


def tokens_by_expert(top_k_index: Tensor, num_experts: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Each expert that got tokens, with these tokens and the place of the expert among their choices."""
    with torch.no_grad():
        index = top_k_index.masked_fill(_elsewhere(top_k_index, num_experts), num_experts)
        mask = F.one_hot(index, num_classes=num_experts + 1).permute(2, 1, 0)
        hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero().flatten()
    for expert in hit[hit < num_experts]:
        position, token = torch.where(mask[expert])
        yield expert, token, position


def sort_by_expert(top_k_index: Tensor, num_experts: int) -> ExpertGroups:
    """The rows of a grouped matrix multiply, without waiting for the device."""
    expert, order = top_k_index.clamp(0, num_experts - 1).flatten().sort(stable=True)
    ends = torch.searchsorted(expert, torch.arange(num_experts, device=expert.device), right=True).to(torch.int32)
    return ExpertGroups(expert, order // top_k_index.shape[1], order, ends)


def combine_rows(
    rows: Tensor, groups: ExpertGroups, top_k_index: Tensor, top_k_weights: Tensor, num_experts: int
) -> Tensor:
    """Each token's weighted sum of its rows, [T, H]; those of experts of other ranks count nothing."""
    order = groups.order
    back = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=order.device))
    weights = top_k_weights.masked_fill(_elsewhere(top_k_index, num_experts), 0)
    return (rows[back].view(*top_k_index.shape, rows.shape[1]) * weights[..., None]).sum(dim=1)


def grouped_linear(rows: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    """Rows [N, in], sorted by group, times the transposed weight [groups, out, in] of their group.

    ``ends``, [groups] of int32, says where each group's rows end. The result is [N, out], in the dtype of the weight,
    or autocast's where that is on. A weight that is stored inputs first (``.transpose(1, 2)`` of it) is not copied.
    """
    device = weight.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
    rows, weight = rows.to(dtype).contiguous(), weight.to(dtype).transpose(1, 2)
    inner, out = weight.shape[1:]
    multiple = _ALIGNED_BYTES // weight.element_size()
    more_out, more_inner = -out % multiple, -inner % multiple
    if not weight.is_contiguous():  # then it is stored outputs first, which stays as it is unless there are gaps
        weight = weight.transpose(1, 2).contiguous().transpose(1, 2)
    if more_out or more_inner:
        rows, weight = F.pad(rows, (0, more_inner)), F.pad(weight, (0, more_out, 0, more_inner))
    if dtype == torch.bfloat16:
        product: Tensor = F.grouped_mm(rows, weight, offs=ends)
    else:
        product = _GroupedProduct.apply(rows, weight, ends)  # type: ignore[no-untyped-call]
    return product[:, :out] if more_out else product


class _GroupedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
        ctx.save_for_backward(rows, weight, ends)
        return grouped_product_forward(rows, weight, ends)  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight, ends = ctx.saved_tensors
        d_rows, d_weight = grouped_product_backward(*grads, rows, weight, ends)
        return d_rows, d_weight if weight.is_contiguous() else d_weight.transpose(1, 2), None


@operator(lambda rows, weight, ends: rows.new_empty(rows.shape[0], weight.shape[2]))
def grouped_product_forward(rows: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    """What :func:`grouped_linear` returns, of sizes that are aligned; the weight is [groups, in, out]."""
    return F.grouped_mm(rows, weight, offs=ends)


@operator(lambda grad, rows, weight, ends: (rows.new_empty(rows.shape), weight.new_empty(_stored(weight).shape)))
def grouped_product_backward(grad: Tensor, rows: Tensor, weight: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of rows and weight, the latter in the order in which the weight is stored."""
    grad = grad.contiguous()
    operands = (rows.t(), grad) if weight.is_contiguous() else (grad.t(), rows)
    return F.grouped_mm(grad, weight.transpose(1, 2), offs=ends), F.grouped_mm(*operands, offs=ends)


def _stored(weight: Tensor) -> Tensor:
    return weight if weight.is_contiguous() else weight.transpose(1, 2)


def _elsewhere(index: Tensor, num_experts: int) -> Tensor:
    return (index < 0) | (index >= num_experts)


def _check(hidden_states: Tensor, index: Tensor, weights: Tensor, gate_up_proj: Tensor, down_proj: Tensor) -> int:
    """The number of experts; refuses shapes that do not fit."""
    hidden = hidden_states.shape[1]
    experts, _, inner = down_proj.shape
    check_choices(hidden_states, index, weights)
    if gate_up_proj.shape != (experts, 2 * inner, hidden) or down_proj.shape[1] != hidden:
        raise PatchgenError(
            f"moe_experts: gate_up_proj {tuple(gate_up_proj.shape)} and down_proj {tuple(down_proj.shape)} must be "
            f"(experts, 2 * size, {hidden}) and (experts, {hidden}, size)"
        )
    return experts


def check_choices(hidden_states: Tensor, index: Tensor, weights: Tensor) -> None:
    """Refuse chosen experts and weights that are not those of the hidden states."""
    tokens = hidden_states.shape[0]
    if index.shape != weights.shape or index.dim() != 2 or index.shape[0] != tokens:
        raise PatchgenError(
            f"moe_experts: top_k_index {tuple(index.shape)} and top_k_weights {tuple(weights.shape)} must both be "
            f"(tokens, choices) for hidden states of shape {tuple(hidden_states.shape)}"
        )
