"""Which parameters of Qwen3.5-MoE are split over the ranks of a parallel dimension."""

from patchgen_core.parallel_plan import ParallelPlan
from torch.distributed.tensor import Shard


def get_parallel_plan(model_class: type) -> ParallelPlan:
    """Experts over the ranks of ``ep``: the first dimension of the fused parameters counts them.

    The shared expert, which every token goes through, is not split.

    Args:
        model_class: the generated class, or one that derives from it; a text model alone has shorter names.
    """
    layers = "model.layers" if model_class.__name__.endswith("ForCausalLM") else "model.language_model.layers"
    experts = {
        f"{layers}.*.mlp.experts.gate_up_proj": Shard(0),
        f"{layers}.*.mlp.experts.down_proj": Shard(0),
    }
    return ParallelPlan(extra_parallel_plan={"ep": experts})
