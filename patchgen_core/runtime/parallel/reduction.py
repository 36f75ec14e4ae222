"""Losses and norms of ranks that share the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.utils import get_total_norm

from patchgen_core.ops.kernels.moe_losses import shared_load_balancing_loss
from patchgen_core.runtime.parallel.collectives import gather_dimension
from patchgen_core.runtime.parallel.sequence import slice_input_tensor, sp_group_of
from patchgen_core.runtime.parallel.state import get_parallel_state

LoadBalancingLoss = Callable[[Sequence[Tensor], int, int, "Tensor | None"], Tensor]


def reduce_loss(
    loss: Tensor,
    labels: Tensor,
    *,
    num_items_in_batch: int | Tensor | None = None,
    ignore_index: int = -100,
    group: dist.ProcessGroup | None = None,
) -> Tensor:
    """The loss over the labels of all ranks of a group, by default over the slices of this rank's sequences.

    Every rank gets the same value. Its gradient is that of this rank's share, times the number of ranks: FSDP takes
    the mean of what all ranks have, and the result is the gradient of one process. Ranks may have unlike numbers of
    labels, and none; where no rank has one, the loss is 0.

    Args:
        loss: the mean over this rank's labels that are not ignored; with ``num_items_in_batch`` their sum, divided
            by that.
        labels: this rank's labels, one for each prediction: shifted already.
        num_items_in_batch: what the loss was divided by, if it is no mean.
        group: ``get_parallel_state().fsdp_group`` for the mean over the labels of all ranks.
    """
    ranks = sp_group_of(group)
    if ranks is None:
        return loss
    share = loss
    if num_items_in_batch is None:
        count = (labels != ignore_index).sum()
        every = count.clone()
        dist.all_reduce(every, group=ranks)
        share = torch.where(count > 0, loss, 0.0) * (count / every.clamp(min=1))
    value = share.detach().clone()
    dist.all_reduce(value, group=ranks)
    scaled = share * ranks.size()
    return value + (scaled - scaled.detach())


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float = float("inf")) -> Tensor:
    """Scale gradients down to a norm of ``max_norm`` over all parameters of all ranks; the norm before, on every rank.

    torch's own ``clip_grad_norm_``, for parameters on more than one mesh, as experts' are. Each rank has other parts.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    parts = [one.to_local() if isinstance(one, DTensor) else one for one in gradients]
    total = get_total_norm(parts)
    group = get_parallel_state().fsdp_group
    if group is not None:
        dist.all_reduce(square := total.square(), group=group)
        total = square.sqrt()
    torch._foreach_mul_(parts, (max_norm / (total + 1e-6)).clamp(max=1.0))
    return total


def sequence_parallel_load_balancing(loss: LoadBalancingLoss) -> LoadBalancingLoss:
    """A load-balancing loss of whole sequences, given the router logits of this rank's slices.

    ::

        balance = sequence_parallel_load_balancing(load_balancing_loss_func)
        mask = kwargs.get("token_mask", attention_mask)
        aux_loss = balance(outputs.router_logits, self.num_experts, self.num_experts_per_tok, mask)

    The loss is no mean over tokens: how often each expert is chosen and how probable it is are summed over all slices
    first, and only these sums are exchanged. Whatever ``loss`` is, it is computed as
    :func:`~patchgen_core.ops.kernels.moe_losses.scatter_add_load_balancing_loss` does, over the ranks.

    The mask is that of whole sequences, [B, S], or of this rank's slice, as :func:`slice_batch` makes ``token_mask``.
    Without one, padding counts as tokens do.
    """
    group = sp_group_of(None)
    return loss if group is None else partial(_balance_slices, group)


def _balance_slices(
    group: dist.ProcessGroup,
    router_logits: Sequence[Tensor],
    num_experts: int,
    top_k: int,
    attention_mask: Tensor | None = None,
) -> Tensor:
    if attention_mask is not None and router_logits and attention_mask.numel() != router_logits[0].shape[0]:
        attention_mask = slice_input_tensor(attention_mask, 1, padding=False, group=group)
    return shared_load_balancing_loss(router_logits, num_experts, top_k, attention_mask, group)


def gather_router_logits(
    router_logits: Sequence[Tensor], batch_size: int, group: dist.ProcessGroup | None = None
) -> tuple[Tensor, ...]:
    """The router logits [B * S, E] of whole sequences, of those [B * S / sp, E] of this rank's slices, for each layer.

    A load-balancing loss is no mean over tokens: it takes those of all slices, and is the same on every rank.
    """
    ranks = sp_group_of(group)
    if ranks is None:
        return tuple(router_logits)
    slices = (logits.view(batch_size, -1, logits.shape[-1]) for logits in router_logits)
    return tuple(gather_dimension(one, 1, ranks).flatten(0, 1) for one in slices)
