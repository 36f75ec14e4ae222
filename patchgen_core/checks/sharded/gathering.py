"""Puts together what ranks share, on the first of them, by two collectives however many tensors there are.

DTensor's ``full_tensor``, and an optimizer that goes through its operators, take longer than training a toy model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Shard


def gather_on_first_rank(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The whole tensors, by name; on other ranks than the first nothing that is of use. All ranks call it."""
    shared = {name: value for name, value in values.items() if _sharded_dimension(value) is not None}
    whole = {name: _whole(value) for name, value in values.items() if name not in shared}
    for dtype in dict.fromkeys(value.dtype for value in shared.values()):
        whole |= _gather({name: value for name, value in shared.items() if value.dtype == dtype}, dtype)
    return {name: whole[name] for name in values}


def own_parameters(parameters: Sequence[nn.Parameter]) -> list[nn.Parameter]:
    """The parts of parameters that this rank has: plain ones, in the same memory, without gradients."""
    return [nn.Parameter(p.to_local().detach()) if isinstance(p, DTensor) else p for p in parameters]


def _sharded_dimension(value: Tensor) -> int | None:
    """The dimension that all ranks share, if they share one and nothing else."""
    if not isinstance(value, DTensor) or value.device_mesh.ndim != 1 or type(value.placements[0]) is not Shard:
        return None
    return value.placements[0].dim if value.device_mesh.size() == dist.get_world_size() else None


def _gather(values: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    parts = [_local(value).flatten() for value in values.values()]
    own = torch.tensor([part.numel() for part in parts])
    counts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, own)
    longest = max(int(count.sum()) for count in counts)
    row = torch.zeros(longest, dtype=dtype)
    row[: int(own.sum())] = torch.cat(parts)
    rows = [torch.empty_like(row) for _ in counts] if dist.get_rank() == 0 else None
    dist.gather(row, rows)
    if rows is None:
        return dict(values)
    split = [torch.split(row[: int(count.sum())], count.tolist()) for row, count in zip(rows, counts)]
    return {name: _join(value, slices) for (name, value), slices in zip(values.items(), zip(*split))}


def _join(value: Tensor, slices: Sequence[Tensor]) -> Tensor:
    dim = _sharded_dimension(value)
    assert dim is not None
    before, after = value.shape[:dim], value.shape[dim + 1 :]
    size = prod((*before, *after))
    return torch.cat([part.view(*before, part.numel() // size, *after) for part in slices], dim=dim)


def _whole(value: Tensor) -> Tensor:
    value = value.detach()
    return value.full_tensor() if isinstance(value, DTensor) else value.clone()


def _local(value: Tensor) -> Tensor:
    value = value.detach()
    return value.to_local() if isinstance(value, DTensor) else value
