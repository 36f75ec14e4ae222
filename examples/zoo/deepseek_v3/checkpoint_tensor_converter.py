"""The hub has one tensor for each projection of each expert; the model has two for all experts of a layer.

Shared experts are an MLP of their own (``mlp.shared_experts.*``) and pass as they are, and so does the bias of the
router. The layer for predicting further tokens, behind the last one of the model, is left out: the model's class
ignores it.
"""

from patchgen_core.checkpoint import PerExpertConverter, create_per_expert_converter


def create_deepseek_v3_checkpoint_tensor_converter(model) -> PerExpertConverter:
    """The converter for one load of ``model``."""
    return create_per_expert_converter(model)
