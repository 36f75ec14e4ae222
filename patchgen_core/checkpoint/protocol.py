"""What a checkpoint tensor converter is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import torch


class Layout(str, Enum):
    """How a checkpoint holds the experts of a mixture-of-experts model.

    With E experts, hidden size H and intermediate size I:

    Attributes:
        PER_EXPERT: one matrix an expert and projection: ``experts.{j}.gate_proj.weight [I, H]``,
            ``up_proj [I, H]``, ``down_proj [H, I]``.
        TRANSPOSED: one tensor for all experts, inputs first: ``experts.gate_up_proj [E, H, 2I]``,
            ``experts.down_proj [E, I, H]``.
        DIRECT: names and shapes are the model's own: in transformers 5, ``experts.gate_up_proj [E, 2I, H]``
            and ``experts.down_proj [E, H, I]``.
        NONE: there are no experts.
    """

    PER_EXPERT = "per_expert"
    TRANSPOSED = "transposed"
    DIRECT = "direct"
    NONE = "none"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class ConvertedCheckpointTensor:
    """A tensor as the model has it, by its name in the model's state dict."""

    name: str
    tensor: torch.Tensor


@dataclass(frozen=True)
class StoredPart:
    """Where a tensor of a checkpoint lies in a tensor of the model.

    Attributes:
        name: the converted tensor's name.
        offsets: where it begins there, in each dimension. A stored tensor of fewer dimensions is one deep in the
            first.
        transposed: whether its last two dimensions change places.
    """

    name: str
    offsets: tuple[int, ...]
    transposed: bool = False


@runtime_checkable
class LocatingConverter(Protocol):
    """A converter that only moves values, and can say where: a sharded model then reads no more than its own parts."""

    def locate(self, name: str, shape: tuple[int, ...]) -> StoredPart:
        """Where the tensor that the checkpoint calls ``name``, and :meth:`can_handle` accepts, is to go."""
        ...


@runtime_checkable
class CheckpointTensorConverter(Protocol):
    """Turns the tensors of a checkpoint, given one by one, into the tensors of a model.

    A converter looks at names, shapes and dtypes and moves values about, and does not depend on the values:
    :func:`~patchgen_core.checkpoint.load_state_dict_streaming` lets a copy of it convert tensors of the ``meta``
    device first, to find what is wrong with a checkpoint before it touches the model.
    """

    def can_handle(self, name: str) -> bool:
        """Whether the tensor that the checkpoint calls ``name`` is this converter's."""
        ...

    def convert(self, name: str, tensor: torch.Tensor) -> ConvertedCheckpointTensor | None:
        """Take one tensor that :meth:`can_handle` accepted; what is complete now, or None while it waits."""
        ...

    def finalize(self) -> list[ConvertedCheckpointTensor]:
        """Say that there are no more tensors, and get what is left to hand over.

        Raises:
            PatchgenError: tensors still wait for others that never came; it names which are missing.
        """
        ...


def maybe_convert_checkpoint_tensor(
    name: str, tensor: torch.Tensor, converter: CheckpointTensorConverter | None
) -> ConvertedCheckpointTensor | None:
    """What becomes of one tensor of a checkpoint, given by its name there.

    The converted tensor, or this very tensor under its own name when there is no converter or it is none of the
    converter's. None when the converter keeps it until others have come; call its ``finalize`` after the last tensor.
    """
    if converter is None or not converter.can_handle(name):
        return ConvertedCheckpointTensor(name, tensor)
    return converter.convert(name, tensor)
