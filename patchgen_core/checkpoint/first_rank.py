"""What one rank does for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch.distributed as dist

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class FirstRank:
    """The rank that writes files. With ``is_shared`` false this process works for itself."""

    is_shared: bool

    @property
    def is_this(self) -> bool:
        """Whether it is this process."""
        return not self.is_shared or dist.get_rank() == 0

    def call(self, action: Callable[[], _Value]) -> _Value:
        """What ``action`` returns on the first rank, on every rank; its error is raised on every rank as well.

        A collective operation, after which all ranks go on together.
        """
        if not self.is_shared:
            return action()
        outcome: list[Any] = [None, None]
        if self.is_this:
            try:
                outcome[0] = action()
            except Exception as error:
                outcome[1] = error
        dist.broadcast_object_list(outcome, src=0)
        if outcome[1] is not None:
            raise outcome[1]
        value: _Value = outcome[0]
        return value
