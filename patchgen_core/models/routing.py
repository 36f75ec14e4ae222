"""Choices that rounding decides: a router whose experts all but tie takes another one in another dtype or kernel.

What a model computes after that has nothing to do with what is compared. So upstream's eager run notes what each
``topk`` chose, and the runs that are compared with it choose the same wherever the difference is one of rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_TOPK = (torch.topk, torch.Tensor.topk)
_ROUNDINGS = 8


@dataclass(frozen=True)
class Choices:
    """The indices of each call of ``topk`` in a run, int64 on the CPU; ``eps`` is that of the run's dtype."""

    eps: float
    indices: tuple[Tensor, ...] = ()

    def are_those_of(self, other: Choices) -> bool:
        """Whether each call chose the same."""
        return len(self.indices) == len(other.indices) and all(map(torch.equal, self.indices, other.indices))


class Recording(TorchFunctionMode):
    """Notes the indices that each ``topk`` gives, in ``indices``."""

    def __init__(self) -> None:
        super().__init__()
        self.indices: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in _TOPK:
            self.indices.append(result.indices.detach().to("cpu", copy=True))
        return result


class Following(TorchFunctionMode):
    """Has each ``topk`` choose what another run's did, in the rows where rounding makes the difference.

    Calls are matched by their order; one of another shape keeps what it chose.
    """

    def __init__(self, choices: Choices) -> None:
        super().__init__()
        self._eps = choices.eps
        self._remaining: Iterator[Tensor] = iter(choices.indices)

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        result = func(*args, **options)
        if func not in _TOPK:
            return result
        theirs = next(self._remaining, None)
        if theirs is None or theirs.shape != result.indices.shape:
            return result
        values = args[0] if args else options["input"]
        dim = options.get("dim", args[2] if len(args) > 2 else -1)
        return _follow(values, result, theirs.to(values.device), dim, self._eps)


def _follow(values: Tensor, result: Any, theirs: Tensor, dim: int, eps: float) -> Any:
    """The result with the other choice where both differ by less than rounding does."""
    with torch.no_grad():
        mask = torch.zeros(values.shape, dtype=torch.bool, device=values.device)
        disputed = mask.scatter(dim, result.indices, True) ^ mask.scatter(dim, theirs, True)
        if not bool(disputed.any()):
            return result
        infinite = torch.full_like(values, torch.inf)
        highest = torch.where(disputed, values, -infinite).amax(dim, keepdim=True)
        lowest = torch.where(disputed, values, infinite).amin(dim, keepdim=True)
        scale = torch.where(values.isfinite(), values.abs(), torch.zeros_like(values)).amax(dim, keepdim=True)
        is_tie = disputed.any(dim, keepdim=True) & (highest - lowest <= _ROUNDINGS * eps * scale)
        indices = torch.where(is_tie, theirs, result.indices)
    return torch.return_types.topk((values.gather(dim, indices), indices))
