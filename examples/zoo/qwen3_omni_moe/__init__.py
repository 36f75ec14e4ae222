"""Qwen3-Omni-MoE: the generated classes by model type with their converter, and upstream's for what makes speech."""

from patchgen_core.registry import MODELING_REGISTRY


@MODELING_REGISTRY.register("qwen3_omni_moe")
@MODELING_REGISTRY.register("qwen3_omni_moe_thinker")
def register_qwen3_omni_moe_modeling(architecture: str):
    """The generated class for an architecture of a ``config.json``; upstream's for the talker and the vocoder."""
    if "Talker" in architecture or "Code2Wav" in architecture:
        from transformers.models.qwen3_omni_moe import modeling_qwen3_omni_moe as upstream

        return getattr(upstream, architecture)
    from .checkpoint_tensor_converter import create_qwen3_omni_moe_checkpoint_tensor_converter
    from .generated import patched_modeling_qwen3_omni_moe_gpu as generated

    model_class = getattr(generated, architecture, generated.Qwen3OmniMoeForConditionalGeneration)
    model_class._create_checkpoint_tensor_converter = staticmethod(create_qwen3_omni_moe_checkpoint_tensor_converter)
    return model_class
