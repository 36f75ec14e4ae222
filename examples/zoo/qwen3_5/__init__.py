"""Qwen3.5: the generated classes by model type.

The heads for classification make the model below them by ``AutoModel``: call
``patchgen_core.auto.register_with_auto`` for "qwen3_5" and "qwen3_5_text" before one is built, else that is
upstream's, unpatched.
"""

from patchgen_core.registry import MODELING_REGISTRY


@MODELING_REGISTRY.register("qwen3_5")
def register_qwen3_5_modeling(architecture: str):
    """The generated class for an architecture of a ``config.json``."""
    from .generated import patched_modeling_qwen3_5_gpu as generated

    return getattr(generated, architecture, generated.Qwen3_5Model)


@MODELING_REGISTRY.register("qwen3_5_text")
def register_qwen3_5_text_modeling(architecture: str):
    """The generated class for an architecture of a text model's ``config.json``."""
    from .generated import patched_modeling_qwen3_5_gpu as generated

    return getattr(generated, architecture, generated.Qwen3_5TextModel)
