"""The hub has one tensor for each projection of each expert, unlike Qwen3-VL-MoE's: the model has two for a layer."""

from patchgen_core.checkpoint import PerExpertConverter, create_per_expert_converter


def create_qwen3_omni_moe_checkpoint_tensor_converter(model) -> PerExpertConverter:
    """The converter for one load of ``model``, which may be the whole model or a part of its thinker."""
    return create_per_expert_converter(model)
