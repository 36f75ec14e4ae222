"""Toy batches: what models are run on.

A builder looks at a :class:`ToyModel` and gives batches, or none when it has nothing for that family.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from patchgen_core.models.config_changes import Change
from patchgen_core.models.model_heads import Kind
from patchgen_core.models.modes import TRAINING, Mode

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

MEDIA = frozenset({"pixel_values", "pixel_values_videos", "input_features"})
"""Inputs that towers take."""

_MANY = 256
"""Tokens of a batch."""


@dataclass(frozen=True)
class ToyBatch:
    """Inputs of one forward.

    Attributes:
        name: what reports call it, such as "padded".
        inputs: keyword arguments of ``forward``; tensors on the CPU, floating ones in float32.
        covered_by: name of a batch that reaches all that this one does: where kernels are interpreted, which takes
            long, this one is left out when that one runs. Empty for none.
        seen_in: name of a batch on which kernels see all that they see on this one, which other code does not: where
            kernels are interpreted in slots, this one is left out when that one runs. Empty for none.
        as_rank: whether it runs in a process group, as on a rank of a distributed trainer. A gradient of zeros is then
            the same as none: it is what a model gives to take part in what ranks exchange.
        mode: how it is run.
        trained: the same batch in a training step; None where this is that.
        changes: what differs in the configuration of the models that are run on it.
        is_narrow: whether it is run in the last of the dtypes that are compared in place of the first.
        is_in_pieces: whether it is longer than what patched code may work on at a time; sums over pieces have other
            bits than those over all of it.
        about: what it is, for people, such as "two sequences in one row"; empty where its inputs say enough.
    """

    name: str
    inputs: Mapping[str, Any]
    covered_by: str = ""
    as_rank: bool = False
    seen_in: str = ""
    mode: Mode = TRAINING
    trained: ToyBatch | None = None
    changes: tuple[Change, ...] = ()
    is_narrow: bool = False
    is_in_pieces: bool = False
    about: str = ""

    @property
    def computed_alike(self) -> ToyBatch:
        """The batch of which upstream's model computes the same in less time: that of the training step for one that
        is traced first, and else this."""
        return self.trained if self.mode.is_traced and self.trained is not None else self

    @property
    def has_media(self) -> bool:
        """Whether it has pictures, videos or sounds."""
        return bool(MEDIA & self.inputs.keys())

    @property
    def is_rounded(self) -> bool:
        """Whether a patched model may compute in another order than upstream's, so that bits differ."""
        return self.mode.is_rounded or self.is_in_pieces

    @property
    def is_large(self) -> bool:
        """Whether it takes long: models are built for it alone, or it has very many tokens."""
        return bool(self.changes) or ("input_ids" in self.inputs and self.tokens > _MANY)

    @property
    def tokens(self) -> int:
        """How many tokens of text it has; as many as elements where it has none."""
        ids, embeddings = self.inputs.get("input_ids"), self.inputs.get("inputs_embeds")
        if isinstance(ids, torch.Tensor):
            return ids.numel()
        return embeddings[..., 0].numel() if isinstance(embeddings, torch.Tensor) else self.size

    def in_mode(self, mode: Mode) -> ToyBatch:
        """The same inputs, run in a mode, whose name is told beside that of the batch."""
        name = f"{self.name}, {mode.name}"
        return replace(self, name=name, covered_by="", seen_in="", mode=mode, trained=self.trained or self)

    def with_changes(self, changes: tuple[Change, ...]) -> ToyBatch:
        """The same inputs for models of a configuration with these changes and no others, told in the name."""
        name = self.name.removesuffix("".join(f", {change.name}" for change in self.changes))
        name += "".join(f", {change.name}" for change in changes)
        return replace(self, name=name, covered_by="", seen_in="", changes=changes)

    @property
    def size(self) -> int:
        """How many elements the inputs have."""
        return sum(value.numel() for value in self.inputs.values() if isinstance(value, torch.Tensor))

    def to(self, dtype: torch.dtype, device: torch.device | str) -> dict[str, Any]:
        """Copies of the inputs for a model: floating tensors in its dtype, all on its device."""

        def moved(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return value.to(device, dtype if value.is_floating_point() else value.dtype, copy=True)
            if isinstance(value, (list, tuple)):
                return type(value)(map(moved, value))
            if isinstance(value, Mapping):  # such as an output of a tower
                return type(value)(**{key: moved(inner) for key, inner in value.items()})
            return value

        return {name: moved(value) for name, value in self.inputs.items()}


def describe_batch(batch: ToyBatch) -> str:
    """What a batch is, and what it passes, by name and shape."""
    return ": ".join(filter(None, [batch.about, describe_inputs(batch.inputs)]))


def describe_inputs(inputs: Mapping[str, Any]) -> str:
    """What a batch passes, by name: tensors with their shape, numbers and texts as they are."""

    def describe(name: str, value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return f"{name} {list(value.shape)}" if value.dim() else f"{name}={value.item():g}"
        return f"{name}={value}" if isinstance(value, (bool, int, float, str)) else name

    return ", ".join(describe(name, value) for name, value in inputs.items()) or "nothing"


@dataclass(frozen=True)
class ToyModel:
    """What a builder is given: upstream's toy model, in float32 on the CPU, with random parameters, and its kind."""

    model: PreTrainedModel
    kind: Kind

    @property
    def config(self) -> PreTrainedConfig:
        """The toy configuration."""
        return self.model.config

    @property
    def model_type(self) -> str:
        """As transformers names the model."""
        return str(self.model.config.model_type)

    @cached_property
    def takes(self) -> frozenset[str]:
        """The names that ``forward`` takes."""
        return frozenset(inspect.signature(self.model.forward).parameters)


Builder = Callable[[ToyModel], Iterable[ToyBatch]]
Form = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class WantedBatches:
    """A batch that a family may be run on, in the forms that upstream's models take it in.

    Attributes:
        forms: give the inputs; the first one that upstream runs counts. A form that raises is one that the model
            does not take.
        separate: for several sequences packed into one row, how long the first is: upstream must not let it reach
            the rest; 0 for other batches.
        media: names of inputs that the outputs must depend on.
        covered_by, as_rank, seen_in, about: as for :class:`ToyBatch`.
    """

    name: str
    forms: tuple[Form, ...]
    separate: int = 0
    media: tuple[str, ...] = ()
    covered_by: str = ""
    as_rank: bool = False
    seen_in: str = ""
    about: str = ""


@dataclass(frozen=True)
class Batches:
    """The batches that upstream's model runs, the most general one first.

    ``refused`` has a line for each batch that a model of its family may take and this one does not, with the reason.
    """

    batches: tuple[ToyBatch, ...]
    refused: tuple[str, ...] = ()
