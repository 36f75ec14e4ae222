"""Qwen2.5-Omni: the generated classes by model type, and upstream's for what makes speech."""

from patchgen_core.registry import MODELING_REGISTRY


@MODELING_REGISTRY.register("qwen2_5_omni")
@MODELING_REGISTRY.register("qwen2_5_omni_thinker")
def register_qwen2_5_omni_modeling(architecture: str):
    """The generated class for an architecture of a ``config.json``; upstream's for the talker and the vocoder."""
    if "Talker" in architecture or "Token2Wav" in architecture:
        from transformers.models.qwen2_5_omni import modeling_qwen2_5_omni as upstream

        return getattr(upstream, architecture)
    from .generated import patched_modeling_qwen2_5_omni_gpu as generated

    return getattr(generated, architecture, generated.Qwen2_5OmniForConditionalGeneration)
