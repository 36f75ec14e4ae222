"""Qwen3-Omni-MoE: the generated classes by model type with their converter, and upstream's for what makes speech;
a configuration and a processor of its own."""

from patchgen_core.registry import MODEL_CONFIG_REGISTRY, MODEL_PROCESSOR_REGISTRY, MODELING_REGISTRY


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


@MODEL_CONFIG_REGISTRY.register("qwen3_omni_moe")
def register_qwen3_omni_moe_config():
    """The configuration that ties no head to the embeddings."""
    from .configuration_qwen3_omni_moe import Qwen3OmniMoeConfig

    return Qwen3OmniMoeConfig


@MODEL_PROCESSOR_REGISTRY.register("Qwen3OmniMoeProcessor")
def register_qwen3_omni_moe_processor():
    """The processor that takes empty lists."""
    from .processing_qwen3_omni_moe import Qwen3OmniMoeProcessor

    return Qwen3OmniMoeProcessor
