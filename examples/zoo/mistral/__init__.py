"""Mistral: the generated classes by model type.

The heads for classification and for question answering make the model below them by ``AutoModel``: call
``patchgen_core.auto.register_with_auto("mistral")`` before one is built, else that is upstream's, unpatched.
"""

from patchgen_core.registry import MODELING_REGISTRY


@MODELING_REGISTRY.register("mistral")
def register_mistral_modeling(architecture: str):
    """The generated class for an architecture of a ``config.json``."""
    from .generated import patched_modeling_mistral_gpu as generated

    return getattr(generated, architecture, generated.MistralModel)
