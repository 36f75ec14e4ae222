"""Qwen3-MoE: the generated classes by model type, with the converter that their loaders use."""

from patchgen_core.registry import MODELING_REGISTRY


@MODELING_REGISTRY.register("qwen3_moe")
def register_qwen3_moe_modeling(architecture: str):
    """The generated class for an architecture of a ``config.json``."""
    from .checkpoint_tensor_converter import create_qwen3_moe_checkpoint_tensor_converter
    from .generated.patched_modeling_qwen3_moe_gpu import (
        Qwen3MoeForCausalLM,
        Qwen3MoeForSequenceClassification,
        Qwen3MoeModel,
    )

    for model_class in (Qwen3MoeForCausalLM, Qwen3MoeForSequenceClassification, Qwen3MoeModel):
        model_class._create_checkpoint_tensor_converter = staticmethod(create_qwen3_moe_checkpoint_tensor_converter)
    if "ForCausalLM" in architecture:
        return Qwen3MoeForCausalLM
    if "ForSequenceClassification" in architecture:
        return Qwen3MoeForSequenceClassification
    return Qwen3MoeModel
