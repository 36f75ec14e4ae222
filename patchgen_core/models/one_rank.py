"""A process that is the only rank of a group."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from patchgen_core.models.environment import use_loopback


@contextmanager
def group_of_one_rank() -> Iterator[None]:
    """Be the only rank of a group that reaches no network: of the one that the project's set-up began, if it did."""
    if not torch.distributed.is_available():
        raise ValueError("this torch is built without torch.distributed")
    if torch.distributed.is_initialized():
        yield
        return
    use_loopback()
    store = torch.distributed.HashStore()  # type: ignore[attr-defined]
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()
