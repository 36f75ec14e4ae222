"""gpt-oss: the generated classes by model type.

There is no converter: checkpoints in bfloat16 have the experts as the model has them, inputs first, gate and up
interleaved. Those in MXFP4 (``..._blocks`` and ``..._scales``) are to be dequantized first, by transformers: load
upstream's class with ``quantization_config=Mxfp4Config(dequantize=True)`` and save it.

The heads for classification make the model below them by ``AutoModel``: call
``patchgen_core.auto.register_with_auto("gpt_oss")`` before one is built, else that is upstream's, unpatched.
"""

from patchgen_core.registry import MODELING_REGISTRY


@MODELING_REGISTRY.register("gpt_oss")
def register_gpt_oss_modeling(architecture: str):
    """The generated class for an architecture of a ``config.json``."""
    from .generated import patched_modeling_gpt_oss_gpu as generated

    return getattr(generated, architecture, generated.GptOssModel)
