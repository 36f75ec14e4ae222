"""A plan, and a small model that one is for; ranks import them by their names."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import Shard
from transformers import (
    PreTrainedConfig,
    PreTrainedModel,
)

from patchgen_core.checks.result import CheckResult
from patchgen_core.parallel_plan.plan import ParallelPlan

EXPERTS = "model.layers.*.mlp.experts"


def plan(experts: str = EXPERTS, **placements: Any) -> ParallelPlan:
    """A plan for expert parallelism; without placements the right one."""
    placements = placements or {"gate_up_proj": Shard(0), "down_proj": Shard(0)}
    return ParallelPlan({"ep": {f"{experts}.{name}": placement for name, placement in placements.items()}})


def told(verdict: CheckResult) -> str:
    assert verdict.errors
    return "\n".join(map(str, verdict.errors))


class SmallConfig(PreTrainedConfig):
    model_type = "small_moe"


class SmallExperts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.randn(4, 6, 3, dtype=torch.bfloat16))
        self.down_proj = nn.Parameter(torch.empty(4, 3, 5))  # initialized by nobody


class Small(PreTrainedModel):
    config_class = SmallConfig

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.experts = SmallExperts()
        self.embed = nn.Embedding(8, 3)
        self.head = nn.Linear(3, 8)
        self.head.weight = self.embed.weight
        self.counts = nn.Parameter(torch.zeros(4, dtype=torch.int32), requires_grad=False)


SMALL = ParallelPlan({"ep": {"experts.gate_up_proj": Shard(0), "experts.down_proj": Shard(0)}})
