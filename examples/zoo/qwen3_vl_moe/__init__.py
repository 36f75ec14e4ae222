"""Qwen3-VL-MoE: the generated classes by model type, those for NPUs where there is one, with their converter."""

from patchgen_core.registry import MODELING_REGISTRY


@MODELING_REGISTRY.register("qwen3_vl_moe")
def register_qwen3_vl_moe_modeling(architecture: str):
    """The generated class for an architecture of a ``config.json``."""
    from transformers.utils import is_torch_npu_available

    from .checkpoint_tensor_converter import create_qwen3_vl_moe_checkpoint_tensor_converter

    if is_torch_npu_available():
        from .generated import patched_modeling_qwen3_vl_moe_npu as generated
    else:
        from .generated import patched_modeling_qwen3_vl_moe_gpu as generated

    models = (generated.Qwen3VLMoeForConditionalGeneration, generated.Qwen3VLMoeModel, generated.Qwen3VLMoeTextModel)
    # The text model can be loaded alone, so it has the converter as well.
    for model_class in models:
        model_class._create_checkpoint_tensor_converter = staticmethod(create_qwen3_vl_moe_checkpoint_tensor_converter)
    return getattr(generated, architecture, generated.Qwen3VLMoeModel)
