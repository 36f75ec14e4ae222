"""The part of a tensor that a rank has, and what of a stored tensor belongs there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from patchgen_core.checkpoint.protocol import StoredPart

Read = Callable[[tuple[slice, ...]], torch.Tensor]
"""Reads a region of a stored tensor."""


@dataclass(frozen=True)
class Region:
    """Where a stored tensor and the part of a tensor that this rank has overlap.

    Attributes:
        stored: the region of the stored tensor.
        local: the same region of the rank's part.
        is_transposed: whether the last two dimensions of what is read change places.
    """

    stored: tuple[slice, ...]
    local: tuple[slice, ...]
    is_transposed: bool

    def read(self, read: Read) -> torch.Tensor:
        """What is stored there, as the model has it."""
        values = read(self.stored)
        return values.transpose(-1, -2) if self.is_transposed else values


def is_sharded(tensor: torch.Tensor) -> bool:
    """Whether ranks have a part of a tensor each: it is a ``DTensor``."""
    return hasattr(tensor, "device_mesh")


def own_part(tensor: torch.Tensor) -> torch.Tensor:
    """What this rank has of a tensor, sharing its memory: all of it, or the local part of a ``DTensor``."""
    if is_sharded(tensor):
        tensor = tensor.to_local()  # type: ignore[attr-defined]
    return tensor


def find_region(tensor: torch.Tensor, part: StoredPart, shape: tuple[int, ...]) -> Region | None:
    """What of a stored tensor of a shape this rank has, if it has any of it."""
    oriented = (*shape[:-2], shape[-1], shape[-2]) if part.transposed else shape
    sizes = (1,) * (len(part.offsets) - len(shape)) + oriented
    stored, local = [], []
    mine = zip(_own_offsets(tensor), own_part(tensor).shape, strict=True)
    for (own, size), start, length in zip(mine, part.offsets, sizes, strict=True):
        first, last = max(own, start), min(own + size, start + length)
        if first >= last:
            return None
        stored.append(slice(first - start, last - start))
        local.append(slice(first - own, last - own))
    stored = stored[len(sizes) - len(shape) :]
    if part.transposed:
        stored[-2:] = stored[:-3:-1]
    return Region(tuple(stored), tuple(local), part.transposed)


def _own_offsets(tensor: torch.Tensor) -> tuple[int, ...]:
    if not is_sharded(tensor):
        return (0,) * tensor.dim()
    return tuple(tensor.__create_chunk_list__()[0].offsets)  # type: ignore[attr-defined]
