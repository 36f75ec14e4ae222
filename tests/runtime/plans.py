"""Parallel plans, and a model that they are for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.tensor import Shard

from patchgen_core.errors import PatchgenError
from patchgen_core.parallel_plan.plan import ParallelPlan

EXPERTS = "model.layers.*.mlp.experts"


def plan(experts: str = EXPERTS, **placements: Any) -> ParallelPlan:
    """A plan for expert parallelism; without placements the right one."""
    placements = placements or {"gate_up_proj": Shard(0), "down_proj": Shard(0)}
    return ParallelPlan({"ep": {f"{experts}.{name}": placement for name, placement in placements.items()}})


def refusal(function: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(PatchgenError) as caught:
        function(*arguments)
    return str(caught.value)


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.randn(4, 6, 3))
        self.down_proj = nn.Parameter(torch.randn(4, 3, 5), requires_grad=False)
        self.router = nn.Linear(3, 2)
