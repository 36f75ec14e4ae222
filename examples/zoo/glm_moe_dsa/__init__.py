"""GLM-MoE-DSA: the generated classes by model type, those for NPUs where there is one, with the loaders' converter."""

from patchgen_core.registry import MODELING_REGISTRY


@MODELING_REGISTRY.register("glm_moe_dsa")
def register_glm_moe_dsa_modeling(architecture: str):
    """The generated class for an architecture of a ``config.json``."""
    from transformers.utils import is_torch_npu_available

    from .checkpoint_tensor_converter import create_glm_moe_dsa_checkpoint_tensor_converter

    if is_torch_npu_available():
        from .generated import patched_modeling_glm_moe_dsa_npu as generated
    else:
        from .generated import patched_modeling_glm_moe_dsa_gpu as generated

    model_class = getattr(generated, architecture, generated.GlmMoeDsaModel)
    model_class._create_checkpoint_tensor_converter = staticmethod(create_glm_moe_dsa_checkpoint_tensor_converter)
    return model_class
