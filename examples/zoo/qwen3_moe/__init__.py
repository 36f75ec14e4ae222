"""Qwen3-MoE: the generated classes by model type, those for NPUs where there is one, with their loaders' converter.

The heads for classification and for question answering make the model below them by ``AutoModel``: call
``patchgen_core.auto.register_with_auto("qwen3_moe")`` before one is built, else that is upstream's, unpatched.
"""

from patchgen_core.registry import MODELING_REGISTRY


@MODELING_REGISTRY.register("qwen3_moe")
def register_qwen3_moe_modeling(architecture: str):
    """The generated class for an architecture of a ``config.json``."""
    from transformers.utils import is_torch_npu_available

    from .checkpoint_tensor_converter import create_qwen3_moe_checkpoint_tensor_converter

    if is_torch_npu_available():
        from .generated import patched_modeling_qwen3_moe_npu as generated
    else:
        from .generated import patched_modeling_qwen3_moe_gpu as generated

    model_class = getattr(generated, architecture, generated.Qwen3MoeModel)
    model_class._create_checkpoint_tensor_converter = staticmethod(create_qwen3_moe_checkpoint_tensor_converter)
    return model_class
