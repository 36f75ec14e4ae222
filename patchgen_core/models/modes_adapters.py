"""Modes in which a model's own parameters are frozen, and what is put beside them is trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from patchgen_core.models.modes import Mode
from patchgen_core.models.module_changes import Changes
from patchgen_core.models.random_values import random_floats

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_RANK = 2
_PROMPT = "prompt"


class LowRankLinear(nn.Module):
    """A linear layer with a product of two narrow matrices beside it, which are trained, as peft puts it there."""

    def __init__(self, base_layer: nn.Linear) -> None:
        super().__init__()
        self.base_layer = base_layer
        down, up = (_RANK, base_layer.in_features), (base_layer.out_features, _RANK)
        self.lora_A = nn.Parameter(self._random(*down))
        self.lora_B = nn.Parameter(self._random(*up))

    def _random(self, rows: int, columns: int) -> Tensor:
        values: Tensor = random_floats(rows, columns) / columns**0.5
        weight: Tensor = self.base_layer.weight
        return values.to(weight.device, weight.dtype)

    def __getattr__(self, name: str) -> Any:
        """What a linear layer is asked for, such as its weight and its sizes, is that of the one below."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("base_layer"), name)

    def forward(self, value: Tensor) -> Tensor:
        """The layer's output with that of the adapter added."""
        low = nn.functional.linear(value.to(self.lora_A.dtype), self.lora_A)
        result: Tensor = self.base_layer(value)
        return result + nn.functional.linear(low, self.lora_B).to(result.dtype)


def find_linear_layers(model: PreTrainedModel) -> dict[str, nn.Linear]:
    """The linear layers of a model that adapters are put beside, by path: all but a head's own."""
    return {path: part for path, part in model.named_modules() if "." in path and isinstance(part, nn.Linear)}


@contextmanager
def _adapted(model: PreTrainedModel) -> Iterator[None]:
    with Changes() as changes:
        changes.freeze(model)
        for path, layer in find_linear_layers(model).items():
            changes.put_module(model, path, LowRankLinear(layer))
        yield


@contextmanager
def _prompted(model: PreTrainedModel) -> Iterator[None]:
    with Changes() as changes:
        changes.freeze(model)
        changes.callback(model._parameters.pop, _PROMPT, None)
        yield


def _call_with_prompt(model: PreTrainedModel, inputs: Mapping[str, Any]) -> Any:
    """With embeddings that need a gradient."""
    given = dict(inputs)
    embeddings = given.pop("inputs_embeds", None)
    if embeddings is None:
        embeddings = model.get_input_embeddings()(given.pop("input_ids"))
    prompt = nn.Parameter(torch.zeros_like(embeddings))
    model.register_parameter(_PROMPT, prompt)
    return model(**given, inputs_embeds=embeddings + prompt)


ADAPTED = Mode("low-rank adapters", _adapted)
PROMPTED = Mode("frozen, embeddings trained", _prompted, _call_with_prompt)
