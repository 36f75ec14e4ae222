"""Positions of tokens along several axes, for models that are given slices of sequences."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_MAKER = "get_rope_index"


def add_positions(model: PreTrainedModel, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs with ``position_ids``, where the model would make them of the sizes of pictures and videos.

    They are those of whole sequences: what a data transform makes before sequences are sliced.
    """
    owners = (model, getattr(model, "model", model))
    owner = next((owner for owner in owners if hasattr(owner, _MAKER)), None)
    has_grids = any(name.endswith("_grid_thw") and value is not None for name, value in inputs.items())
    if owner is None or not has_grids or inputs.get("position_ids") is not None:
        return dict(inputs)
    make = getattr(owner, _MAKER)
    taken = inspect.signature(make).parameters
    with torch.no_grad():
        position_ids, _ = make(**{name: value for name, value in inputs.items() if name in taken})
    return {**inputs, "position_ids": position_ids}
