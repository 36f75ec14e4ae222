"""Which parameters of GLM-MoE-DSA are split over the ranks of a parallel dimension."""

from patchgen_core.parallel_plan import ParallelPlan
from torch.distributed.tensor import Shard


def get_parallel_plan() -> ParallelPlan:
    """Experts over the ranks of ``ep``: the first dimension of the fused parameters counts them.

    Dense layers have no such parameters; shared experts are whole on every rank.
    """
    experts = {
        "model.layers.*.mlp.experts.gate_up_proj": Shard(0),
        "model.layers.*.mlp.experts.down_proj": Shard(0),
    }
    return ParallelPlan(extra_parallel_plan={"ep": experts})
