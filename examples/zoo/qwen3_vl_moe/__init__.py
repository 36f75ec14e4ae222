"""Qwen3-VL-MoE: the generated classes by model type, with the converter that their loaders use."""

from patchgen_core.registry import MODELING_REGISTRY


@MODELING_REGISTRY.register("qwen3_vl_moe")
def register_qwen3_vl_moe_modeling(architecture: str):
    """The generated class for an architecture of a ``config.json``."""
    from .checkpoint_tensor_converter import create_qwen3_vl_moe_checkpoint_tensor_converter
    from .generated.patched_modeling_qwen3_vl_moe_gpu import (
        Qwen3VLMoeForConditionalGeneration,
        Qwen3VLMoeModel,
        Qwen3VLMoeTextModel,
    )

    # The text model can be loaded alone, so it has the converter as well.
    for model_class in (Qwen3VLMoeForConditionalGeneration, Qwen3VLMoeModel, Qwen3VLMoeTextModel):
        model_class._create_checkpoint_tensor_converter = staticmethod(create_qwen3_vl_moe_checkpoint_tensor_converter)
    if "ForConditionalGeneration" in architecture:
        return Qwen3VLMoeForConditionalGeneration
    return Qwen3VLMoeTextModel if "TextModel" in architecture else Qwen3VLMoeModel
