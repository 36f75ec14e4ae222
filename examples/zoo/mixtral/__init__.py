"""Mixtral: the generated classes by model type, with the converter that their loaders use.

The heads for classification and for question answering make the model below them by ``AutoModel``: call
``patchgen_core.auto.register_with_auto("mixtral")`` before one is built, else that is upstream's, unpatched.
"""

from patchgen_core.registry import MODELING_REGISTRY


@MODELING_REGISTRY.register("mixtral")
def register_mixtral_modeling(architecture: str):
    """The generated class for an architecture of a ``config.json``."""
    from .checkpoint_tensor_converter import create_mixtral_checkpoint_tensor_converter
    from .generated import patched_modeling_mixtral_gpu as generated

    model_class = getattr(generated, architecture, generated.MixtralModel)
    model_class._create_checkpoint_tensor_converter = staticmethod(create_mixtral_checkpoint_tensor_converter)
    return model_class
