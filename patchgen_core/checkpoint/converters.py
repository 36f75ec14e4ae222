"""Converters for the ways in which the hub stores experts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patchgen_core.checkpoint.mapping import (
    ExpertConversion,
    conversion_of_model,
    conversion_of_type,
    model_type_of,
    name_map,
)
from patchgen_core.checkpoint.protocol import CheckpointTensorConverter, ConvertedCheckpointTensor, Layout, StoredPart
from patchgen_core.checkpoint.sizes import ExpertSizes, expert_sizes
from patchgen_core.errors import PatchgenError, Problem, list_some

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import nn

QWEN_RECIPES: Mapping[str, tuple[str, ...]] = {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}

_FUSED = re.compile(r"(?:.+\.)?experts\.(gate_up_proj|down_proj)")
_MOST = 4


@dataclass
class _Buffer:
    """A fused tensor that is being filled."""

    tensor: torch.Tensor
    seen: set[tuple[int, str]]


class DirectConverter:
    """For checkpoints whose experts are stored as the model has them: there is nothing to do."""

    layout = Layout.DIRECT

    def can_handle(self, name: str) -> bool:
        """No: every tensor is loaded as it is."""
        return False

    def convert(self, name: str, tensor: torch.Tensor) -> ConvertedCheckpointTensor | None:
        """The tensor itself."""
        return ConvertedCheckpointTensor(name, tensor)

    def finalize(self) -> list[ConvertedCheckpointTensor]:
        """Nothing is ever kept."""
        return []


class PerExpertConverter:
    """Fuses ``experts.{j}.{projection}.weight`` into one tensor for all experts.

    With the default recipes, ``gate_proj [I, H]`` and ``up_proj [I, H]`` of each expert, gate first, become
    ``gate_up_proj [E, 2I, H]``, and ``down_proj [H, I]`` becomes ``down_proj [E, H, I]``. The checkpoint may give the
    tensors in any order; a fused tensor is handed over with the last of its experts, and only what is being filled is
    kept: one layer's experts, when a checkpoint gives one layer after another. Fused tensors of a checkpoint, which
    have other names, are not touched.

    Args:
        sizes: the number of experts, by tensor where it differs.
        recipes: fused name -> the projections it is made of, along the output dimension.
        rename: what to call a fused tensor whose name is put together from the checkpoint's.
        own_names: names that the model itself has, and that are none of this converter's business.
        ignored: regular expressions for keys that the model leaves out, such as those of a talker: experts that
            match are none of its business either, unless ``own_names`` has what they would become.
    """

    layout = Layout.PER_EXPERT

    def __init__(
        self,
        sizes: ExpertSizes | int,
        recipes: Mapping[str, tuple[str, ...]] | None = None,
        rename: Callable[[str], str] | None = None,
        own_names: frozenset[str] = frozenset(),
        ignored: Iterable[str] = (),
    ) -> None:
        self._sizes = ExpertSizes(sizes) if isinstance(sizes, int) else sizes
        self._recipes = dict(recipes or QWEN_RECIPES)
        self._target_of = {source: target for target, sources in self._recipes.items() for source in sources}
        projections = "|".join(sorted(map(re.escape, self._target_of), key=len, reverse=True))
        self._pattern = re.compile(
            rf"(?P<module>(?:.+\.)?experts)\.(?P<expert>[0-9]+)\.(?P<projection>{projections})\.weight"
        )
        self._rename = rename
        self._own_names = own_names
        self._ignored = tuple(ignored)
        self._buffers: dict[tuple[str, str], _Buffer] = {}

    @property
    def buffered_bytes(self) -> int:
        """The size of what waits for more experts, in bytes."""
        return sum(buffer.tensor.nbytes for buffer in self._buffers.values())

    def can_handle(self, name: str) -> bool:
        """Whether ``name`` is one projection of one expert of the model."""
        match = self._pattern.fullmatch(name)
        if match is None or name in self._own_names:
            return False
        if any(re.search(pattern, name) for pattern in self._ignored):
            return self._name(match["module"], self._target_of[match["projection"]]) in self._own_names
        return True

    def convert(self, name: str, tensor: torch.Tensor) -> ConvertedCheckpointTensor | None:
        """Take one projection ``[out, in]`` of one expert; its last part hands over the fused tensor.

        That has the dtype of its experts and lies on their device.

        Raises:
            PatchgenError: the name is none of an expert, the model has no such expert, it was given before, or
                its shape or dtype is not that of the other experts.
        """
        match = self._pattern.fullmatch(name)
        if match is None:
            raise PatchgenError(f"'{name}' is not a projection of an expert", hint="Ask can_handle first.")
        module, expert, projection = match["module"], int(match["expert"]), match["projection"]
        target = self._target_of[projection]
        count = self._count(module, target)
        if expert >= count:
            raise PatchgenError(f"'{name}': the model has {count} experts there, 0 to {count - 1}")
        if tensor.dim() != 2:
            raise PatchgenError(f"'{name}' has shape {list(tensor.shape)}; the weight of an expert has two dimensions")
        buffer = self._buffer(name, (module, target), count, tensor)
        if (expert, projection) in buffer.seen:
            raise PatchgenError(f"'{name}' was given before", hint="An expert's projection belongs in one shard.")
        buffer.seen.add((expert, projection))
        position = self._recipes[target].index(projection)
        rows = tensor.shape[0]
        buffer.tensor[expert, position * rows : (position + 1) * rows].copy_(tensor.detach())
        if len(buffer.seen) < count * len(self._recipes[target]):
            return None
        del self._buffers[module, target]
        return ConvertedCheckpointTensor(self._name(module, target), buffer.tensor)

    def locate(self, name: str, shape: tuple[int, ...]) -> StoredPart:
        """Where one projection ``[out, in]`` of one expert lies in its fused tensor."""
        match = self._pattern.fullmatch(name)
        assert match is not None
        target = self._target_of[match["projection"]]
        row = self._recipes[target].index(match["projection"]) * shape[0]
        return StoredPart(self._name(match["module"], target), (int(match["expert"]), row, 0))

    def finalize(self) -> list[ConvertedCheckpointTensor]:
        """End the checkpoint: nothing is left to hand over.

        Raises:
            PatchgenError: experts are missing; one problem for each fused tensor, which names them.
        """
        problems = [self._missing(module, target) for module, target in sorted(self._buffers)]
        if problems:
            raise PatchgenError.from_problems(problems)
        return []

    def _buffer(self, name: str, key: tuple[str, str], count: int, part: torch.Tensor) -> _Buffer:
        parts = len(self._recipes[key[1]])
        shape = (count, parts * part.shape[0], part.shape[1])
        buffer = self._buffers.get(key)
        if buffer is None:
            buffer = self._buffers[key] = _Buffer(part.new_empty(shape), set())
        if tuple(buffer.tensor.shape) != shape or buffer.tensor.dtype != part.dtype:
            rows = buffer.tensor.shape[1] // parts
            raise PatchgenError(
                f"'{name}' is {_describe(part)}; the projections before it were {_describe(buffer.tensor[0, :rows])}"
            )
        return buffer

    def _name(self, module: str, target: str) -> str:
        name = f"{module}.{target}"
        return self._rename(name) if self._rename else name

    def _count(self, module: str, target: str) -> int:
        return self._sizes.of(self._name(module, target)).experts

    def _missing(self, module: str, target: str) -> Problem:
        count, seen = self._count(module, target), self._buffers[module, target].seen
        sources = self._recipes[target]
        lacking = {
            expert: [source for source in sources if (expert, source) not in seen]
            for expert in range(count)
            if any((expert, source) not in seen for source in sources)
        }
        experts = [f"{expert} ({', '.join(names)})" for expert, names in lacking.items()]
        total = count * len(sources)
        return Problem(
            f"'{module}.{target}' is incomplete: {total - len(seen)} of {total} tensors of experts are missing,"
            f" of expert {list_some(experts, _MOST)}",
            hint="The checkpoint is damaged or partial: fetch all of its shards.",
        )


class TransposedFusedConverter:
    """Transposes fused experts that the hub stores inputs first; tells by shape whether it has to.

    ``gate_up_proj [E, H, 2I]`` becomes ``[E, 2I, H]``, ``down_proj [E, I, H]`` becomes ``[E, H, I]``. Checkpoints
    saved in the model's layout have the same names: their tensors are handed on as they are, the same objects.

    Raises:
        PatchgenError: H is 2I or I, so that a shape would not tell the layouts apart.
    """

    layout = Layout.TRANSPOSED

    def __init__(self, sizes: ExpertSizes) -> None:
        self._sizes = sizes
        for name, one in sizes.dimensions():
            if not (one.experts and one.hidden and one.intermediate):
                raise PatchgenError(
                    f"the sizes of '{name}' are not known: {one.experts} experts, hidden size {one.hidden},"
                    f" intermediate size {one.intermediate}",
                    hint="The configuration must have num_experts, hidden_size and moe_intermediate_size.",
                )
            _, rows, columns = sizes.shape_of(name)
            if rows == columns:
                raise PatchgenError(
                    f"the shape of '{name}' does not show whether it is transposed: hidden size {one.hidden},"
                    f" intermediate size {one.intermediate}",
                    hint="The hidden size must differ from the intermediate size and from twice that. Convert the"
                    " checkpoint once, by a script that knows its layout.",
                )

    def can_handle(self, name: str) -> bool:
        """Whether ``name`` is a fused tensor of experts."""
        return _FUSED.fullmatch(name) is not None

    def convert(self, name: str, tensor: torch.Tensor) -> ConvertedCheckpointTensor | None:
        """Take one fused tensor, and hand over the same or its transpose (a view of it).

        Raises:
            PatchgenError: the name is none of fused experts, or the shape is neither layout's.
        """
        if _FUSED.fullmatch(name) is None:
            raise PatchgenError(f"'{name}' is not a fused tensor of experts", hint="Ask can_handle first.")
        own = self._sizes.shape_of(name)
        stored = (own[0], own[2], own[1])
        if tuple(tensor.shape) == own:
            return ConvertedCheckpointTensor(name, tensor)
        if tuple(tensor.shape) == stored:
            return ConvertedCheckpointTensor(name, tensor.transpose(1, 2))
        raise PatchgenError(
            f"'{name}' has shape {list(tensor.shape)}; expected {list(stored)}, as the hub stores it, or {list(own)},"
            " as the model has it",
            hint="The checkpoint is for a model of another size, or has another layout.",
        )

    def locate(self, name: str, shape: tuple[int, ...]) -> StoredPart:
        """Where a fused tensor lies: it is the model's, or its transpose."""
        return StoredPart(name, (0, 0, 0), transposed=shape != self._sizes.shape_of(name))

    def finalize(self) -> list[ConvertedCheckpointTensor]:
        """Nothing is ever kept."""
        return []


def create_per_expert_converter(model: nn.Module) -> PerExpertConverter:
    """A converter for hub checkpoints with one matrix an expert (qwen3_moe, deepseek_v3, mixtral, ...).

    The number of experts comes from the model's fused parameters, or else from its configuration
    (``text_config``, ``thinker_config``, or flat); the names of projections from transformers' conversion mapping
    where it has some for the model, or else they are ``gate_proj``, ``up_proj`` and ``down_proj``.

    Raises:
        PatchgenError: the model tells no number of experts, or transformers fuses its experts in another way.
    """
    conversion = _conversion(model)
    if conversion.unsupported:
        operations = ", ".join(dict.fromkeys(conversion.unsupported))
        raise PatchgenError(
            f"transformers fuses the experts of {_describe_model(model)} by {operations},"
            " which no ready converter does",
            hint="Write a converter for it: a class with can_handle, convert and finalize.",
        )
    recipes = conversion.recipes or QWEN_RECIPES
    to_model = name_map(model).to_model
    own = frozenset(model.state_dict())
    ignored = getattr(model, "_keys_to_ignore_on_load_unexpected", None) or ()

    def rename(name: str) -> str:
        return name if name in own else to_model(name)

    return PerExpertConverter(expert_sizes(model, recipes), recipes, rename, own, ignored)


def create_transposed_fused_converter(model: nn.Module) -> TransposedFusedConverter:
    """A converter for hub checkpoints with fused experts stored inputs first (qwen3_vl_moe).

    Sizes come from the model's fused parameters, or else from its configuration (``text_config``,
    ``thinker_config``, or flat).

    Raises:
        PatchgenError: the model tells no sizes, or sizes by which the layouts cannot be told apart.
    """
    return TransposedFusedConverter(expert_sizes(model, QWEN_RECIPES))


def create_direct_converter(model: nn.Module) -> DirectConverter:
    """A converter for hub checkpoints that are as the model is: it does nothing."""
    return DirectConverter()


def create_checkpoint_tensor_converter(model: nn.Module) -> CheckpointTensorConverter:
    """The converter that transformers' conversion mapping asks for.

    Args:
        model: a model, or a part of one, of a generated or an upstream class.

    Raises:
        PatchgenError: no ready converter fits the model; see the factory of each.
    """
    conversion = _conversion(model)
    if conversion.layout is None or conversion.layout is Layout.PER_EXPERT:
        return create_per_expert_converter(model)
    if conversion.layout is Layout.TRANSPOSED:
        if conversion.unsupported:
            raise PatchgenError(
                f"the hub stores the experts of {_describe_model(model)} transposed and under other names",
                hint="Write a converter for it: a class with can_handle, convert and finalize.",
            )
        return create_transposed_fused_converter(model)
    return create_direct_converter(model)


def _conversion(model: nn.Module) -> ExpertConversion:
    model_type = model_type_of(model)
    conversion = conversion_of_model(model)
    if conversion.layout is Layout.NONE and model_type is not None:
        return conversion_of_type(model_type)
    return conversion


def _describe_model(model: Any) -> str:
    return f"'{model_type_of(model) or type(model).__name__}'"


def _describe(tensor: torch.Tensor) -> str:
    return f"{list(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"
