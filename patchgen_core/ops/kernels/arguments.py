"""What a kernel is called with to try it: random tensors that are the same on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, dtype


@dataclass(frozen=True)
class Case:
    """One call of a kernel.

    Attributes:
        label: what is special about it, for the report.
        arguments: the positional arguments by name, in order.
        constant: names of floating tensors that want no gradient; all others are differentiated.
    """

    label: str
    arguments: Mapping[str, Any]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    constant: frozenset[str] = frozenset()


class Draw:
    """Random tensors, floating ones of one dtype, the same for the same seed (any text) on every machine."""

    def __init__(self, dtype: dtype, seed: str) -> None:
        import torch

        self.dtype = dtype
        number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:6], "big")
        self._generator = torch.Generator().manual_seed(number)

    def normal(self, *shape: int, scale: float = 1.0, mean: float = 0.0) -> Tensor:
        """Normally distributed numbers."""
        import torch

        return (torch.randn(shape, generator=self._generator) * scale + mean).to(self.dtype)

    def integers(self, high: int, *shape: int) -> Tensor:
        """Whole numbers from 0 to ``high - 1``, of int64."""
        import torch

        return torch.randint(high, shape, generator=self._generator)

    def orders(self, rows: int, count: int) -> Tensor:
        """A random order of the numbers from 0 to ``count - 1`` in each row, of int64: [rows, count]."""
        import torch

        return torch.rand((rows, count), generator=self._generator).argsort(dim=-1)


def strided(tensor: Tensor) -> Tensor:
    """The same values with gaps between them, so that the tensor is not contiguous."""
    import torch

    return torch.stack((tensor, torch.full_like(tensor, 3)), dim=-1)[..., 0]


Maker = Callable[[Draw], Iterable[Case]]
"""Makes the cases of an op's variant in one dtype."""
