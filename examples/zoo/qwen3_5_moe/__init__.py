"""Qwen3.5-MoE: the generated classes by model type, with the converter that their loaders use."""

from patchgen_core.registry import MODELING_REGISTRY


@MODELING_REGISTRY.register("qwen3_5_moe")
def register_qwen3_5_moe_modeling(architecture: str):
    """The generated class for an architecture of a ``config.json``."""
    generated = _generated()
    return getattr(generated, architecture, generated.Qwen3_5MoeModel)


@MODELING_REGISTRY.register("qwen3_5_moe_text")
def register_qwen3_5_moe_text_modeling(architecture: str):
    """The generated class for an architecture of a text model's ``config.json``."""
    generated = _generated()
    return getattr(generated, architecture, generated.Qwen3_5MoeTextModel)


def _generated():
    """The generated module, with the converter on every class that a checkpoint is loaded into."""
    from .checkpoint_tensor_converter import create_qwen3_5_moe_checkpoint_tensor_converter
    from .generated import patched_modeling_qwen3_5_moe_gpu as generated

    for model_class in (
        generated.Qwen3_5MoeForCausalLM,
        generated.Qwen3_5MoeForConditionalGeneration,
        generated.Qwen3_5MoeModel,
        generated.Qwen3_5MoeTextModel,
    ):
        model_class._create_checkpoint_tensor_converter = staticmethod(create_qwen3_5_moe_checkpoint_tensor_converter)
    return generated
