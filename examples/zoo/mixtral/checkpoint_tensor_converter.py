"""The hub has one tensor for each matrix of each expert; the model has two for all experts of a layer.

The matrices of an expert are ``w1`` (gate), ``w3`` (up) and ``w2`` (down), under ``block_sparse_moe`` where the model
says ``mlp``. Both are in transformers' conversion mapping, which the ready converter reads.
"""

from patchgen_core.checkpoint import PerExpertConverter, create_per_expert_converter


def create_mixtral_checkpoint_tensor_converter(model) -> PerExpertConverter:
    """The converter for one load of ``model``."""
    return create_per_expert_converter(model)
