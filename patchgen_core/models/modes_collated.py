"""A way of running a model: on what its own collate function adds to a batch."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from patchgen_core.models.modes import Mode

if TYPE_CHECKING:
    from transformers import PreTrainedModel

METADATA = "get_metadata_collate_func"
"""The method by which a model gives trainers a function that works out, where batches are put together, what
``forward`` would work out of them."""


def call_with_metadata(model: PreTrainedModel, inputs: Mapping[str, Any]) -> Any:
    """Call a model with what its own collate function makes of the inputs; as it is, where it has none.

    The function is given the inputs that it has parameters for and gives more; or, where it has parameters of other
    names, the whole batch, to which it may add, and an empty mapping for whatever else it asks for.
    """
    give = getattr(model, METADATA, None)
    return model(**inputs) if give is None else model(**_collate(give(), inputs))


def _collate(function: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    device = next((value.device for value in inputs.values() if isinstance(value, torch.Tensor)), "cpu")
    batch = {name: _moved(value, "cpu") for name, value in inputs.items()}
    parameters = inspect.signature(function).parameters.values()
    required = [one.name for one in parameters if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]
    if required and not set(required) <= batch.keys():
        result = function(batch, *({} for _ in required[1:])) or {}
    else:
        result = function(**{one.name: batch[one.name] for one in parameters if one.name in batch})
    return {name: _moved(value, device) for name, value in {**batch, **result}.items()}


def _moved(value: Any, device: torch.device | str) -> Any:
    return value.to(device) if isinstance(value, torch.Tensor) else value


COLLATED = Mode("with metadata", call=call_with_metadata, method=METADATA)
