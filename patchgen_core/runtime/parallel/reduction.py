"""Losses and norms of ranks that share the work."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from patchgen_core.runtime.parallel.sequence import sp_group_of


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

    torch's own ``clip_grad_norm_``, for parameters on more than one mesh, as experts' are.
    """
    by_mesh: dict[DeviceMesh | None, list[nn.Parameter]] = {}
    for parameter in parameters:
        if parameter.grad is not None:
            mesh = parameter.grad.device_mesh if isinstance(parameter.grad, DTensor) else None
            by_mesh.setdefault(mesh, []).append(parameter)
    norms = [get_total_norm([p.grad for p in group if p.grad is not None]) for group in by_mesh.values()]
    total = get_total_norm([norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms])
    for group in by_mesh.values():
        clip_grads_with_norm_(group, max_norm, total)
    return total
