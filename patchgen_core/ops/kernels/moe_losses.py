"""The load-balancing loss of a mixture's routers: ``moe_load_balancing_loss/standard``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from patchgen_core.errors import PatchgenError
from patchgen_core.ops.losses import widen


def eager_load_balancing_loss(
    router_logits: Sequence[Tensor], num_experts: int, top_k: int, attention_mask: Tensor | None = None
) -> Tensor:
    """``moe_load_balancing_loss/standard``: the Switch Transformer's, as Mixtral and Qwen3-MoE have it.

    The share of all assignments that each expert gets times its mean probability, summed over experts, times their
    number; over the tokens of all layers together. A scalar tensor of float32.

    Args:
        router_logits: one tensor [T, E] for each layer.
        attention_mask: [B, S] with B * S = T; tokens where it is 0 are not counted.

    Raises:
        PatchgenError: there are no router logits (upstream returns the number 0 then), or they are of other
            experts.
    """
    _check(router_logits, num_experts)
    device = router_logits[0].device
    mask = _token_weights(attention_mask, device)
    counts, probabilities, tokens = [], [], []
    for logits in router_logits:
        routing = F.softmax(logits.to(device), dim=-1)
        chosen = F.one_hot(routing.topk(top_k, dim=-1).indices, num_experts).sum(dim=1)
        weight = widen(torch.ones_like(routing[:, 0])) if mask is None else mask
        counts.append((chosen * weight[:, None]).sum(dim=0))
        probabilities.append((widen(routing) * weight[:, None]).sum(dim=0))
        tokens.append(weight.sum())
    total = torch.stack(tokens).sum()
    share, probability = torch.stack(counts).sum(dim=0) / total, torch.stack(probabilities).sum(dim=0) / total
    return torch.sum(share * probability) * num_experts


def scatter_add_load_balancing_loss(
    router_logits: Sequence[Tensor], num_experts: int, top_k: int, attention_mask: Tensor | None = None
) -> Tensor:
    """``moe_load_balancing_loss/standard`` without a tensor of tokens x choices x experts.

    Assignments are counted by adding ones up at the experts' numbers, and nothing but the logits is kept for the
    backward pass, which computes their probabilities again. The arguments are those of
    :func:`eager_load_balancing_loss`.
    """
    return _load_balancing_loss(router_logits, num_experts, top_k, attention_mask, None)


def shared_load_balancing_loss(
    router_logits: Sequence[Tensor],
    num_experts: int,
    top_k: int,
    attention_mask: Tensor | None,
    group: dist.ProcessGroup,
) -> Tensor:
    """The same loss of the tokens of all ranks of a group, each of which has the router logits of its own.

    One sum over the group, of two numbers for each expert and the number of tokens, takes the place of gathering the
    logits of every layer. Every rank gets the same value. Its gradient is that of this rank's logits, times the number
    of ranks: FSDP takes the mean of what all ranks have.

    Args:
        attention_mask: [B, S] with B * S = T, of this rank's tokens.
    """
    return _load_balancing_loss(router_logits, num_experts, top_k, attention_mask, group)


def _load_balancing_loss(
    router_logits: Sequence[Tensor],
    num_experts: int,
    top_k: int,
    attention_mask: Tensor | None,
    group: dist.ProcessGroup | None,
) -> Tensor:
    _check(router_logits, num_experts)
    device = router_logits[0].device
    layers = [logits.to(device) for logits in router_logits]
    mask = _token_weights(attention_mask, device)
    loss: Tensor = _LoadBalancing.apply(mask, top_k, group, *layers)  # type: ignore[no-untyped-call]
    return loss


class _LoadBalancing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mask: Tensor | None, top_k: int, group: dist.ProcessGroup | None, *layers: Tensor) -> Tensor:
        experts = layers[0].shape[1]
        counts = widen(layers[0].new_zeros(experts))
        probability, total = torch.zeros_like(counts), counts.new_zeros(())
        for logits in layers:
            routing = F.softmax(logits, dim=-1)
            chosen = routing.topk(top_k, dim=-1).indices.flatten()
            weight = counts.new_ones(logits.shape[0]) if mask is None else mask.to(counts.dtype)
            counts = counts.scatter_add(0, chosen, weight.repeat_interleave(top_k, output_size=chosen.numel()))
            probability = probability + _column_sums(routing, mask)
            total = total + weight.sum()
        ranks = 1
        if group is not None:
            ranks = group.size()
            dist.all_reduce(sums := torch.cat((counts, probability, total[None])), group=group)
            counts, probability, total = sums[:experts], sums[experts:-1], sums[-1]
        ctx.save_for_backward(mask, counts * (ranks * experts / total**2), *layers)
        return torch.sum((counts / total) * (probability / total)) * experts

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        mask, slope, *layers = ctx.saved_tensors
        slope = slope * grads[0]
        return None, None, None, *(_gradient(logits, slope, mask) for logits in layers)


def _column_sums(routing: Tensor, mask: Tensor | None) -> Tensor:
    wide = widen(routing)
    return wide.sum(dim=0) if mask is None else torch.mv(wide.t(), mask.to(wide.dtype))


def _gradient(logits: Tensor, slope: Tensor, mask: Tensor | None) -> Tensor:
    """What a loss whose slope by each probability is ``slope``, [E], has by the logits."""
    routing = widen(F.softmax(logits, dim=-1))
    inner = slope - torch.mv(routing, slope)[:, None]
    gradient = routing * inner if mask is None else routing * inner * mask.to(routing.dtype)[:, None]
    return gradient.to(logits.dtype)


def _token_weights(attention_mask: Tensor | None, device: torch.device) -> Tensor | None:
    return None if attention_mask is None else widen(attention_mask.reshape(-1).to(device))


def _check(router_logits: Sequence[Tensor], num_experts: int) -> None:
    """Refuse what is no tuple of router logits, one tensor for each layer."""
    if isinstance(router_logits, Tensor) or not router_logits:
        what = "one tensor" if isinstance(router_logits, Tensor) else repr(router_logits)
        hint = "Run the model with output_router_logits=True, and pass what it returns as router_logits."
        raise PatchgenError(f"the load-balancing loss takes the router logits of every layer, not {what}", None, hint)
    for logits in router_logits:
        if logits.dim() != 2 or logits.shape[1] != num_experts:
            raise PatchgenError(f"router logits have shape {tuple(logits.shape)}, not (tokens, {num_experts})")
