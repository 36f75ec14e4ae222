"""Pictures and sounds in a model that ranks share: features of slices, and towers that not every rank has work for."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_leaves

from patchgen_core.runtime.parallel.sequence import gather_outputs, slice_input_tensor
from patchgen_core.runtime.parallel.state import get_parallel_state


def select_features(features: Tensor, mask: Tensor) -> Tensor:
    """Those rows of a tower's features that belong to the placeholders in this rank's slice.

    Upstream's own ``masked_scatter`` and deepstack lines then work on the slice.

    Args:
        features: [N, H], one for each placeholder of the whole sequences, in their order.
        mask: [B, S / sp], where this rank's slice has placeholders.

    Raises:
        RuntimeError: there are not as many features as placeholders in all slices.
    """
    if not get_parallel_state().sp_enabled:
        return features
    every = gather_outputs(mask, 1)
    if every.sum() != len(features):
        raise RuntimeError(
            f"{len(features)} rows of features for {int(every.sum())} placeholders in the slices of all ranks: these"
            " are not those of whole sequences. Put them together by gather_outputs, and take the padding out."
        )
    row = (every.flatten().cumsum(0) - 1).view_as(every)
    return features[slice_input_tensor(row, 1)[mask]]


def add_unused(tensor: Tensor, outputs: Any) -> Tensor:
    """``tensor``, with ``outputs`` as a part of its graph that adds nothing and gets gradients of zero.

    With FSDP all ranks have to run the same modules, forward and backward. A rank without pictures runs the tower on
    a dummy input and adds what comes out::

        if pixel_values is None and get_parallel_state().fsdp_enabled:
            inputs_embeds = add_unused(inputs_embeds, self.visual.dummy_forward())
    """
    for leaf in tree_leaves(outputs):
        if isinstance(leaf, Tensor) and leaf.requires_grad:
            tensor = tensor + leaf.flatten()[:0].sum().to(tensor.dtype)
    return tensor
