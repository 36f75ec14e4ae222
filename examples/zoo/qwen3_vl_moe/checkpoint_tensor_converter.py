"""The hub has the experts of a layer in one tensor, as the model has, with two axes swapped."""

from patchgen_core.checkpoint import TransposedFusedConverter, create_transposed_fused_converter


def create_qwen3_vl_moe_checkpoint_tensor_converter(model) -> TransposedFusedConverter:
    """The converter for one load of ``model``; tensors that a training run saved pass as they are."""
    return create_transposed_fused_converter(model)
