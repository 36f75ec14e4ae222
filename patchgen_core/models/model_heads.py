"""Which classes of a generated module are compared with upstream's: those that training uses."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Kind = Literal["causal_lm", "conditional_generation", "sequence_classification", "token_classification", "base"]

KINDS: dict[str, Kind] = {
    "ForCausalLM": "causal_lm",
    "ForConditionalGeneration": "conditional_generation",
    "ForSequenceClassification": "sequence_classification",
    "ForTokenClassification": "token_classification",
    "LMHeadModel": "causal_lm",
}
"""What the ends of class names mean."""
WHOLE_FIRST: tuple[Kind, ...] = (
    "conditional_generation",
    "causal_lm",
    "sequence_classification",
    "token_classification",
    "base",
)
"""Kinds in the order of how much of a model their heads hold; the first head of a module is its main one."""


@dataclass(frozen=True)
class Head:
    """A model class, of the same name in both modules, that is trained as a whole for what ``kind`` says."""

    name: str
    kind: Kind
    generated: type[PreTrainedModel]
    upstream: type[PreTrainedModel]


def find_heads(generated: ModuleType, upstream: ModuleType) -> tuple[Head, ...]:
    """The heads of a generated module that upstream has as well, in the module's order.

    Of the base models, those with the configuration class of another head; all of them where there is no other.
    """
    heads = [
        Head(name, kind, cls, getattr(upstream, name))
        for name, kind, cls in _models(generated)
        if hasattr(upstream, name) and _has_forward(cls)
    ]
    trained = {head.generated.config_class for head in heads if head.kind != "base"}
    return tuple(
        head for head in heads if head.kind != "base" or not trained or head.generated.config_class in trained
    )


def _models(module: ModuleType) -> Iterator[tuple[str, Kind, Any]]:
    from transformers import PreTrainedModel

    for name, value in vars(module).items():
        is_own = inspect.isclass(value) and value.__module__ == module.__name__ and name == value.__name__
        if not is_own or not issubclass(value, PreTrainedModel) or name.endswith("PreTrainedModel"):
            continue
        kind = _kind(name)
        if kind is not None:
            yield name, kind, value


def _kind(name: str) -> Kind | None:
    """What a class is trained for, by its name, or because AutoModelForCausalLM gives it."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    by_suffix = next((kind for suffix, kind in KINDS.items() if name.endswith(suffix)), None)
    if by_suffix is None and name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        return "causal_lm"
    return "base" if by_suffix is None and name.endswith("Model") else by_suffix


def _has_forward(cls: type) -> bool:
    from torch import nn

    forward: Any = getattr(cls, "forward", None)
    return forward is not nn.Module.forward
