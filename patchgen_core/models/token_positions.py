"""Positions of tokens along several axes, for models that are given slices of sequences."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_MAKER = "compute_3d_position_ids"


def add_positions(model: PreTrainedModel, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs with ``position_ids``, where the model would make them of whole sequences with pictures or sounds.

    They are what a data transform makes before sequences are sliced.
    """
    make = getattr(getattr(model, "model", model), _MAKER, None)
    if make is None or inputs.get("position_ids") is not None:
        return dict(inputs)
    known = dict(inputs)
    if known.get("feature_attention_mask") is not None:
        known.setdefault("audio_feature_lengths", known["feature_attention_mask"].sum(1))
    with torch.no_grad():
        position_ids = make(**{name: known.get(name) for name in inspect.signature(make).parameters})
    return dict(inputs) if position_ids is None else {**inputs, "position_ids": position_ids}
