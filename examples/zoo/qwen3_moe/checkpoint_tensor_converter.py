"""The hub has one tensor for each projection of each expert; the model has two for all experts of a layer."""

from patchgen_core.checkpoint import PerExpertConverter, create_per_expert_converter


def create_qwen3_moe_checkpoint_tensor_converter(model) -> PerExpertConverter:
    """The converter for one load of ``model``."""
    return create_per_expert_converter(model)
