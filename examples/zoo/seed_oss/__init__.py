"""Seed-OSS: the generated classes by model type, those for NPUs where there is one.

The heads for classification and for question answering make the model below them by ``AutoModel``: call
``patchgen_core.auto.register_with_auto("seed_oss")`` before one is built, else that is upstream's, unpatched.
"""

from patchgen_core.registry import MODELING_REGISTRY


@MODELING_REGISTRY.register("seed_oss")
def register_seed_oss_modeling(architecture: str):
    """The generated class for an architecture of a ``config.json``."""
    from transformers.utils import is_torch_npu_available

    if is_torch_npu_available():
        from .generated import patched_modeling_seed_oss_npu as generated
    else:
        from .generated import patched_modeling_seed_oss_gpu as generated

    return getattr(generated, architecture, generated.SeedOssModel)
