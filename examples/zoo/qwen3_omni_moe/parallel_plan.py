"""Which parameters of Qwen3-Omni-MoE are split over the ranks of a parallel dimension."""

from patchgen_core.parallel_plan import ParallelPlan
from torch.distributed.tensor import Shard


def get_parallel_plan(model_class: type) -> ParallelPlan:
    """Experts over the ranks of ``ep``, in the whole model or in its thinker alone.

    The first dimension of the fused parameters counts them.
    """
    text = "model.language_model" if "Thinker" in model_class.__name__ else "thinker.model.language_model"
    experts = {
        f"{text}.layers.*.mlp.experts.gate_up_proj": Shard(0),
        f"{text}.layers.*.mlp.experts.down_proj": Shard(0),
    }
    return ParallelPlan(extra_parallel_plan={"ep": experts})
