"""How many experts a model has, and of which sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from patchgen_core.errors import PatchgenError, quote_some

if TYPE_CHECKING:
    from torch import nn

_COUNTS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
_INTERMEDIATE = ("moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size")
_PARTS = ("thinker_config", "text_config")


@dataclass(frozen=True)
class Dimensions:
    """The sizes of one fused tensor of experts; 0 where one is not known."""

    experts: int
    hidden: int = 0
    intermediate: int = 0


@dataclass(frozen=True)
class ExpertSizes(Dimensions):
    """The sizes of a model's experts, by the parameter's name in ``tensors``; its own are those of all others."""

    tensors: Mapping[str, Dimensions] = field(default_factory=dict)

    def of(self, name: str) -> Dimensions:
        """The sizes of a fused tensor, found by more or less of a prefix, or a PatchgenError."""
        if name in self.tensors:
            return self.tensors[name]
        near = {sizes for own, sizes in self.tensors.items() if own.endswith(f".{name}") or name.endswith(f".{own}")}
        if len(near) == 1:
            return near.pop()
        if self.experts:
            return self
        raise PatchgenError(
            f"the model has no experts '{name}'",
            hint=f"It has {quote_some(sorted(self.tensors), 2) or 'none'}. Is the checkpoint of another model?",
        )

    def shape_of(self, name: str) -> tuple[int, int, int]:
        """The shape of a ``...gate_up_proj`` or ``...down_proj`` in the model, or a PatchgenError."""
        one = self.of(name)
        if name.endswith("gate_up_proj"):
            return one.experts, 2 * one.intermediate, one.hidden
        return one.experts, one.hidden, one.intermediate

    def dimensions(self) -> list[tuple[str, Dimensions]]:
        """Each fused tensor and its sizes."""
        return list(self.tensors.items()) or [("experts.gate_up_proj", self), ("experts.down_proj", self)]


def expert_sizes(model: nn.Module, recipes: Mapping[str, tuple[str, ...]]) -> ExpertSizes:
    """The sizes of a model's experts: from its fused parameters, or else from its configuration, or a PatchgenError.

    ``recipes`` are the fused parameters of a module of experts, with the projections each is made of.
    """
    tensors = dict(_from_parameters(model, recipes))
    if tensors:
        different = set(tensors.values())
        one = different.pop() if len(different) == 1 else Dimensions(0)
        return ExpertSizes(one.experts, one.hidden, one.intermediate, tensors)
    sizes = sizes_of_config(getattr(model, "config", None))
    if not sizes.experts:
        raise PatchgenError(
            f"{type(model).__name__} has no fused experts, and its configuration has no number of them",
            hint=f"Looked for parameters '...experts.{next(iter(recipes))}' of three dimensions, and for"
            f" {', '.join(_COUNTS)} in the configuration, its text_config and its thinker_config.",
        )
    return sizes


def _text_config_of(config: Any) -> Any:
    """The part of a configuration that describes the text model: the configuration itself when it is flat."""
    for name in _PARTS:
        config = _get(config, name) or config
    return config


def sizes_of_config(config: Any) -> ExpertSizes:
    """The sizes that a configuration (an object or a plain mapping) tells; 0 for what it does not."""
    text = _text_config_of(config)
    return ExpertSizes(_number(text, _COUNTS), _number(text, ("hidden_size",)), _number(text, _INTERMEDIATE))


def set_expert_count(config: Any, count: int) -> None:
    """Give every part of a configuration object that tells a number of experts another one."""
    for name in _COUNTS:
        if _number(config, (name,)):
            setattr(config, name, count)
    for name in getattr(config, "sub_configs", ()):
        if part := _get(config, name):
            set_expert_count(part, count)


def make_experts_square(config: Any) -> None:
    """Give the experts of every part of a configuration object an intermediate size that is the hidden size."""
    name = next((name for name in _INTERMEDIATE if _number(config, (name,))), "")
    if name and _number(config, _COUNTS):
        setattr(config, name, _number(config, ("hidden_size",)))
    for part_name in getattr(config, "sub_configs", ()):
        if part := _get(config, part_name):
            make_experts_square(part)


def _from_parameters(model: nn.Module, recipes: Mapping[str, tuple[str, ...]]) -> Iterable[tuple[str, Dimensions]]:
    """Each fused parameter ``[experts, parts * out, in]``."""
    pattern = re.compile(rf"(?:.+\.)?experts\.({'|'.join(map(re.escape, recipes))})")
    for name, parameter in model.named_parameters():
        match = pattern.fullmatch(name)
        if match is None or parameter.dim() != 3:
            continue
        if match[1] == "down_proj":
            experts, hidden, intermediate = parameter.shape
        else:
            experts, intermediate, hidden = parameter.shape
            intermediate //= len(recipes[match[1]])
        yield name, Dimensions(experts, hidden, intermediate)


def _number(config: Any, names: Iterable[str]) -> int:
    values = (_get(config, name) for name in names)
    return next((value for value in values if isinstance(value, int) and value > 0), 0)


def _get(config: Any, name: str) -> Any:
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
