"""Qwen's checkpoints have the experts as the model has them; others have one tensor for each projection of an expert.

transformers' conversion mapping of ``qwen3_5_moe_text`` takes both, and so does this: a tensor of one expert is
collected, and a fused one passes as it is.
"""

from patchgen_core.checkpoint import PerExpertConverter, create_per_expert_converter


def create_qwen3_5_moe_checkpoint_tensor_converter(model) -> PerExpertConverter:
    """The converter for one load of ``model``."""
    return create_per_expert_converter(model)
