"""Expert parallelism: tokens go to the ranks that have their experts, and come back.

A module of experts is one whose parameters a plan splits in their first dimension and whose ``forward`` takes
``hidden_states`` [T, H], ``top_k_index`` [T, K] and ``top_k_weights`` [T, K], as those of transformers 5. It need not
know that it has a part of the experts: it gets their parameters as plain tensors, indices from 0, a token for each
choice, and their number as its own ``num_experts``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from patchgen_core.errors import PatchgenError
from patchgen_core.runtime.parallel.collectives import exchange_rows


def find_experts(model: nn.Module) -> dict[str, nn.Module]:
    """The modules, by name, that own parameters which are split over the ranks of ``ep``."""
    return {name: module for name, module in model.named_modules() if _split_parameters(module)}


def run_experts_in_parallel(module: nn.Module, group: dist.ProcessGroup) -> None:
    """Let the ``forward`` of a module of experts send tokens to the ranks of a group that have their experts.

    Gradients of its parameters are the mean over the ranks of the group, as FSDP makes it over the other ranks.
    """
    counts = {parameter.shape[0] for parameter in _split_parameters(module).values()}
    if len(counts) != 1:
        raise PatchgenError(f"{type(module).__name__} has parameters of {sorted(counts)} experts: not of one number")
    own = counts.pop() // group.size()

    def forward(hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        return _forward(module, group, own, hidden_states, top_k_index, top_k_weights)

    module.forward = forward


def _split_parameters(module: nn.Module) -> dict[str, DTensor]:
    parameters = module.named_parameters(recurse=False)
    return {name: p for name, p in parameters if isinstance(p, DTensor) and "ep" in _dimensions(p)}


def _dimensions(parameter: DTensor) -> tuple[str, ...]:
    return parameter.device_mesh.mesh_dim_names or ()


def _forward(
    module: nn.Module, group: dist.ProcessGroup, own: int, hidden_states: Tensor, index: Tensor, weights: Tensor
) -> Tensor:
    choices = index.shape[1]
    expert, order = index.flatten().sort(stable=True)
    give, take = _count_rows(expert // own, group)
    rows = exchange_rows(hidden_states[order // choices], group, take, give)
    with torch.no_grad():
        local_index = exchange_rows(expert[:, None], group, take, give) - group.rank() * own
    outputs = exchange_rows(_run_local(module, own, group.size(), rows, local_index, weights.dtype), group, give, take)
    place = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=order.device))
    weighted = outputs[place].view(*index.shape, outputs.shape[-1]) * weights[..., None]
    return weighted.sum(dim=1).to(hidden_states.dtype)


def _count_rows(owner: Tensor, group: dist.ProcessGroup) -> tuple[list[int], list[int]]:
    """How many rows this rank has for each rank of the group, and how many each has for this one."""
    give = owner.bincount(minlength=group.size())
    take = exchange_rows(give, group, [1] * group.size(), [1] * group.size())
    return give.tolist(), take.tolist()


def _run_local(module: nn.Module, own: int, ranks: int, rows: Tensor, index: Tensor, dtype: torch.dtype) -> Tensor:
    with _local_experts(module, own, ranks) as parameters:
        if rows.shape[0]:
            weights = torch.ones(index.shape, dtype=dtype, device=index.device)
            outputs: Tensor = type(module).forward(module, rows, index, weights)
            return outputs
        for parameter in parameters:  # without a row they still take part: FSDP waits for their gradients
            rows = rows + parameter.flatten()[:0].sum().to(rows.dtype)
        return rows


@contextmanager
def _local_experts(module: nn.Module, own: int, ranks: int) -> Iterator[list[Tensor]]:
    """A module of experts as one of ``own`` experts whose parameters are plain tensors, for a while."""
    parameters: Any = module._parameters
    attributes = vars(module)
    whole, count = dict(parameters), attributes.get("num_experts")
    local = {name: _local_part(p, ranks) if isinstance(p, DTensor) else p for name, p in whole.items()}
    parameters.update(local)
    if count is not None:
        attributes["num_experts"] = own
    try:
        yield [p for p in local.values() if p is not None]
    finally:
        parameters.update(whole)
        if count is not None:
            attributes["num_experts"] = count


def _local_part(parameter: DTensor, ranks: int) -> Tensor:
    """This rank's part of a parameter, whose gradient has what came from ``ranks`` ranks, and becomes their mean."""
    part = parameter.to_local()
    if part.requires_grad:
        part.register_hook(lambda gradient: gradient / ranks)  # type: ignore[no-untyped-call]
    return part
