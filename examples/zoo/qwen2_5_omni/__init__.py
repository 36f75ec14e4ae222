"""Qwen2.5-Omni: the generated classes by model type, and upstream's for what makes speech;
a configuration and a processor of its own."""

from patchgen_core.registry import MODEL_CONFIG_REGISTRY, MODEL_PROCESSOR_REGISTRY, MODELING_REGISTRY


@MODELING_REGISTRY.register("qwen2_5_omni")
@MODELING_REGISTRY.register("qwen2_5_omni_thinker")
def register_qwen2_5_omni_modeling(architecture: str):
    """The generated class for an architecture of a ``config.json``; upstream's for the talker and the vocoder."""
    if "Talker" in architecture or "Token2Wav" in architecture:
        from transformers.models.qwen2_5_omni import modeling_qwen2_5_omni as upstream

        return getattr(upstream, architecture)
    from .generated import patched_modeling_qwen2_5_omni_gpu as generated

    return getattr(generated, architecture, generated.Qwen2_5OmniForConditionalGeneration)


@MODEL_CONFIG_REGISTRY.register("qwen2_5_omni")
def register_qwen2_5_omni_config():
    """The configuration that ties no head to the embeddings."""
    from .configuration_qwen2_5_omni import Qwen2_5OmniConfig

    return Qwen2_5OmniConfig


@MODEL_PROCESSOR_REGISTRY.register("Qwen2_5OmniProcessor")
def register_qwen2_5_omni_processor():
    """The processor that takes empty lists."""
    from .processing_qwen2_5_omni import Qwen2_5OmniProcessor

    return Qwen2_5OmniProcessor
