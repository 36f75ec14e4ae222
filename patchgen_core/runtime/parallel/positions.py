"""Positions and masks of whole sequences, in a model that has slices of them."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

from patchgen_core.runtime.parallel.sequence import slice_input_tensor
from patchgen_core.runtime.parallel.state import get_parallel_state

_Embeddings = TypeVar("_Embeddings", Tensor, tuple[Tensor, Tensor])


def check_position_ids(position_ids: Tensor | None, inputs_embeds: Tensor) -> None:
    """Under sequence parallelism, see that the position ids are those of whole sequences.

    A model must not make them: it sees a slice, [B, S / sp, H], whose positions do not start from 0. They come with
    the batch: :func:`~patchgen_core.runtime.parallel.slice_batch`.

    Raises:
        RuntimeError: there are none, or they are as long as the slice.
    """
    state = get_parallel_state()
    if position_ids is not None:
        check_whole_sequence("position_ids", position_ids, inputs_embeds)
    elif state.sp_enabled:
        raise RuntimeError(
            "position_ids are missing under sequence parallelism: this rank has a slice of the sequence and cannot"
            f" make them. Pass those of the whole sequence, of length {inputs_embeds.shape[1] * state.sp_size}, as"
            " slice_batch does."
        )


def check_whole_sequence(name: str, value: Tensor | None, inputs_embeds: Tensor) -> None:
    """Under sequence parallelism, see that what masks or positions are made of, [..., S], is that of whole sequences.

    Args:
        name: of the argument of ``forward``.
        inputs_embeds: of the slice, [B, S / sp, H].

    Raises:
        RuntimeError: it is there, and has another length.
    """
    state = get_parallel_state()
    length = inputs_embeds.shape[1] * state.sp_size
    if state.sp_enabled and value is not None and value.shape[-1] != length:
        raise RuntimeError(
            f"{name} of shape {tuple(value.shape)} for slices of length {inputs_embeds.shape[1]} on"
            f" {state.sp_size} ranks: pass those of the whole sequence, of length {length}."
        )


def whole_sequence_like(inputs_embeds: Tensor) -> Tensor:
    """A tensor that looks like the embeddings of the whole sequence, [B, S, H], to a function that makes masks.

    It has their shape, dtype and device, the memory of one number, and no values.
    """
    state = get_parallel_state()
    if not state.sp_enabled:
        return inputs_embeds
    batch, length, hidden = inputs_embeds.shape
    return torch.zeros((), dtype=inputs_embeds.dtype, device=inputs_embeds.device).expand(
        batch, length * state.sp_size, hidden
    )


def slice_position_embeddings(embeddings: _Embeddings, dim: int = 1) -> _Embeddings:
    """This rank's slice of position embeddings, or of a pair of cosines and sines, of the whole sequence.

    ``dim`` is the sequence's dimension: 1 in [B, S, D].
    """
    if isinstance(embeddings, Tensor):
        return slice_input_tensor(embeddings, dim, padding=False)
    cos, sin = embeddings
    return slice_input_tensor(cos, dim, padding=False), slice_input_tensor(sin, dim, padding=False)
