"""DeepSeek-V3: the generated classes by model type, those for NPUs where there is one, with their loaders' converter.

The heads for classification make the model below them by ``AutoModel``: call
``patchgen_core.auto.register_with_auto("deepseek_v3")`` before one is built, else that is upstream's, unpatched.
"""

from patchgen_core.registry import MODELING_REGISTRY


@MODELING_REGISTRY.register("deepseek_v3")
def register_deepseek_v3_modeling(architecture: str):
    """The generated class for an architecture of a ``config.json``."""
    from transformers.utils import is_torch_npu_available

    from .checkpoint_tensor_converter import create_deepseek_v3_checkpoint_tensor_converter

    if is_torch_npu_available():
        from .generated import patched_modeling_deepseek_v3_npu as generated
    else:
        from .generated import patched_modeling_deepseek_v3_gpu as generated

    model_class = getattr(generated, architecture, generated.DeepseekV3Model)
    model_class._create_checkpoint_tensor_converter = staticmethod(create_deepseek_v3_checkpoint_tensor_converter)
    return model_class
