"""Differentiable exchanges between the ranks of a group: each one's backward is its transpose.

The gradient that arrives at a rank is the sum of what all ranks of the group made of its part.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import _functional_collectives as functional


def exchange_rows(rows: Tensor, group: dist.ProcessGroup, take: Sequence[int], give: Sequence[int]) -> Tensor:
    """The rows that the group's ranks have for this one, in the order of ranks.

    Args:
        rows: [sum of ``give``, ...], first those for the first rank.
        take: how many rows come from each rank.
        give: how many rows go to each rank.
    """
    return _wait(functional.all_to_all_single_autograd(rows.contiguous(), list(take), list(give), group))


def exchange_dimensions(tensor: Tensor, split: int, join: int, group: dist.ProcessGroup) -> Tensor:
    """Cut dimension ``split`` for the ranks of a group, and put together what they send along dimension ``join``."""
    size = group.size()
    rows = torch.stack(tensor.chunk(size, split))
    received = exchange_rows(rows, group, [1] * size, [1] * size)
    return received.movedim(0, join).flatten(join, join + 1)


def gather_dimension(tensor: Tensor, dim: int, group: dist.ProcessGroup) -> Tensor:
    """What the ranks of a group have, along a dimension, which is as long on every rank."""
    first = tensor.movedim(dim, 0).contiguous()
    return _wait(_all_gather(first, 0, group)).movedim(0, dim)


_all_gather = getattr(functional, "all_gather_single_autograd", None) or functional.all_gather_tensor_autograd


def _wait(tensor: Tensor) -> Tensor:
    return tensor.wait() if isinstance(tensor, functional.AsyncCollectiveTensor) else tensor
