"""Qwen3-VL: the generated classes by model type, those for NPUs where there is one."""

from patchgen_core.registry import MODELING_REGISTRY


@MODELING_REGISTRY.register("qwen3_vl")
def register_qwen3_vl_modeling(architecture: str):
    """The generated class for an architecture of a ``config.json``."""
    from transformers.utils import is_torch_npu_available

    if is_torch_npu_available():
        from .generated import patched_modeling_qwen3_vl_npu as generated
    else:
        from .generated import patched_modeling_qwen3_vl_gpu as generated

    return getattr(generated, architecture, generated.Qwen3VLModel)
