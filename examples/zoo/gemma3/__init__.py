"""Gemma3: the generated classes by model type, of the model with a vision tower and of the text model alone.

The heads for classification make the model below them by ``AutoModel``: call
``patchgen_core.auto.register_with_auto("gemma3")``, and the same for ``"gemma3_text"``, before one is built, else that
is upstream's, unpatched.
"""

from patchgen_core.registry import MODELING_REGISTRY


@MODELING_REGISTRY.register("gemma3")
def register_gemma3_modeling(architecture: str):
    """The generated class for an architecture of a ``config.json``."""
    from .generated import patched_modeling_gemma3_gpu as generated

    return getattr(generated, architecture, generated.Gemma3Model)


@MODELING_REGISTRY.register("gemma3_text")
def register_gemma3_text_modeling(architecture: str):
    """The same for the text model."""
    from .generated import patched_modeling_gemma3_gpu as generated

    return getattr(generated, architecture, generated.Gemma3TextModel)
