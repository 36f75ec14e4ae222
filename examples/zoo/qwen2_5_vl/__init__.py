"""Qwen2.5-VL: the generated classes by model type."""

from patchgen_core.registry import MODELING_REGISTRY


@MODELING_REGISTRY.register("qwen2_5_vl")
def register_qwen2_5_vl_modeling(architecture: str):
    """The generated class for an architecture of a ``config.json``."""
    from .generated import patched_modeling_qwen2_5_vl_gpu as generated

    return getattr(generated, architecture, generated.Qwen2_5_VLModel)
