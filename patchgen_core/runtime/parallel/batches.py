"""Slices of batches for sequence parallelism."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from patchgen_core.runtime.parallel.sequence import pad_cu_seqlens, slice_input_tensor, sp_padding
from patchgen_core.runtime.parallel.state import get_parallel_state

_CU_SEQ_LENS = ("cu_seq_lens_q", "cu_seq_lens_k")
_WHOLE = ("attention_mask", "token_type_ids")
_MAX_LENGTHS = ("max_length_q", "max_length_k")


def slice_batch(batch: Mapping[str, Any], pad_token_id: int = 0, ignore_index: int = -100) -> dict[str, Any]:
    """What this rank gives the model of a batch that every rank of its ``sp`` group has whole.

    ``input_ids`` and ``inputs_embeds`` are padded to a multiple of the ranks and sliced. ``labels`` are shifted first,
    since the last token of a slice predicts the first of the next one, and come as ``labels`` and ``shift_labels``.
    ``position_ids`` stay whole, and are made where there are none; so do ``attention_mask`` and ``token_type_ids``, of
    which masks are made, and ``cu_seq_lens_q`` and ``cu_seq_lens_k``, which get the padding as a sequence of its own.
    All else stays as it is. Where there is padding and no attention mask, labels come with ``token_mask``,
    [B, S / sp]: 0 where this rank's slice has padding.

    Raises:
        RuntimeError: there are pictures or videos in grids and no position ids, which have several axes then.
    """
    if not get_parallel_state().sp_enabled:
        return dict(batch)
    tokens = batch["input_ids"] if batch.get("input_ids") is not None else batch["inputs_embeds"]
    rows, length = tokens.shape[:2]
    result = dict(batch)
    labels = _shifted_labels(batch, tokens, ignore_index)
    padding = sp_padding(length)
    _check_positions(batch)
    for name, dim, value in (("input_ids", 1, pad_token_id), ("inputs_embeds", 1, 0)):
        if batch.get(name) is not None:
            result[name] = slice_input_tensor(batch[name], dim, padding_value=value)
    for name in _WHOLE:
        if batch.get(name) is not None:
            result[name] = F.pad(batch[name], (0, padding))
    result["position_ids"] = _pad_positions(batch.get("position_ids"), rows, length, padding, tokens.device)
    for name in _CU_SEQ_LENS:
        if batch.get(name) is not None:
            result[name] = pad_cu_seqlens(batch[name], padding)
    for name in _MAX_LENGTHS:
        if batch.get(name) is not None:
            result[name] = max(batch[name], padding)
    if labels is not None:
        result["labels"] = result["shift_labels"] = slice_input_tensor(labels, 1, padding_value=ignore_index)
        if padding and batch.get("attention_mask") is None:
            result["token_mask"] = slice_input_tensor(torch.ones_like(labels), 1)
    return result


def _shifted_labels(batch: Mapping[str, Any], tokens: Tensor, ignore_index: int) -> Tensor | None:
    """The label of each prediction; None where labels are none of tokens."""
    if batch.get("shift_labels") is not None:
        labels: Tensor = batch["shift_labels"]
        return labels
    if batch.get("labels") is None or batch["labels"].shape != tokens.shape[:2]:
        return None
    return F.pad(batch["labels"], (0, 1), value=ignore_index)[:, 1:].contiguous()


def _check_positions(batch: Mapping[str, Any]) -> None:
    grids = [name for name, value in batch.items() if name.endswith("_grid_thw") and value is not None]
    if grids and batch.get("position_ids") is None:
        raise RuntimeError(
            f"the batch has {' and '.join(grids)} and no position_ids: these have several axes, and a model with a"
            " slice cannot make them. Make those of the whole sequences, as get_rope_index of the model does."
        )


def _pad_positions(position_ids: Tensor | None, rows: int, length: int, padding: int, device: torch.device) -> Tensor:
    """Positions of the padding go on from the last one, so that it looks like no sequence of its own."""
    if position_ids is None:
        return torch.arange(length + padding, device=device).expand(rows, -1)
    more = torch.arange(1, padding + 1, device=position_ids.device, dtype=position_ids.dtype)
    return torch.cat((position_ids, position_ids[..., -1:] + more), dim=-1)
