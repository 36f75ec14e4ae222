"""What trainers pass beside text: counts over steps, labels of their own, embeddings, a part of the logits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch

from patchgen_core.models.batches import MEDIA, ToyModel, WantedBatches
from patchgen_core.models.batches_text import has_axes, random_ids, switches, vocabulary
from patchgen_core.models.random_values import random_floats

_IGNORED = -100
_OTHER_IGNORED = 7  # no ordinary token
_SHORT = 5
_TRAINER = "num_items_in_batch, labels shifted by the caller, two sequences packed into each row"
_EMBEDDED = "embeddings in place of token ids, and another ignore_index"
_EMBEDDED_ROW = "embeddings in place of token ids"
_RANK = "text alone, on a rank of a process group, for a model that takes other media too"
_KEPT = "logits of the last positions alone, without labels"
_ENDS = ((2, 4), (3, 3))


def training_batches(toy: ToyModel) -> Iterator[WantedBatches]:
    """For language models that pass keyword arguments on to their loss, and *embedded* for classifiers of sequences.

    - *trainer*: two rows in each of which two sequences are packed, cut at other places, so that no two rows have the
      same positions; ``shift_labels`` and ``num_items_in_batch`` as under sequence parallelism and gradient
      accumulation; all hidden states and attentions are asked for;
    - *embedded*: ``inputs_embeds`` in place of token ids, and another ``ignore_index``;
    - *kept*: ``logits_to_keep``, and no labels;
    - *rank*: text alone for a model that takes other media, on a rank of a process group: the ranks beside it may
      have media, and a model that is sharded waits for all of them.
    """
    if toy.kind == "sequence_classification" and "inputs_embeds" in toy.takes and {"labels", "kwargs"} & toy.takes:
        yield WantedBatches("embedded", (partial(_embedded_row, toy),), about=_EMBEDDED_ROW)
    is_language_model = toy.kind in ("causal_lm", "conditional_generation") and not toy.config.is_encoder_decoder
    if not is_language_model or "kwargs" not in toy.takes or vocabulary(toy) is None:
        return
    if "position_ids" in toy.takes:
        yield WantedBatches(
            "trainer",
            tuple(partial(_trainer, toy, axes) for axes in ((4, 0) if has_axes(toy) else (0,))),
            about=_TRAINER,
        )
    if "inputs_embeds" in toy.takes:
        yield WantedBatches("embedded", (partial(_embedded, toy),), about=_EMBEDDED)
    if MEDIA & toy.takes and "input_ids" in toy.takes:
        yield WantedBatches("rank", (partial(_rank, toy),), covered_by="embedded", as_rank=True, about=_RANK)
    if "logits_to_keep" in toy.takes:
        ids = random_ids(toy, 1, _SHORT, seed=4)
        inputs = {"input_ids": ids, "logits_to_keep": 2, **switches(toy)}
        inputs.pop("output_router_logits", None)  # as the configuration has it
        yield WantedBatches("kept", (lambda: inputs,), seen_in="embedded", about=_KEPT)


def _trainer(toy: ToyModel, axes: int) -> Mapping[str, Any]:
    ids = random_ids(toy, len(_ENDS), sum(_ENDS[0]), seed=2)
    positions = torch.stack([torch.cat([torch.arange(length) for length in lengths]) for lengths in _ENDS])
    shifted = torch.nn.functional.pad(ids, (0, 1), value=_IGNORED)[:, 1:].contiguous()
    for row, (first, _) in enumerate(_ENDS):
        shifted[row, first - 1] = _IGNORED
    if axes:
        positions = positions.expand(axes, -1, -1).contiguous()
    return {
        "input_ids": ids,
        "position_ids": positions,
        "labels": ids.clone(),
        "shift_labels": shifted,
        "num_items_in_batch": torch.tensor(11),
        "output_hidden_states": True,
        "output_attentions": True,
        **switches(toy),
    }


def _rank(toy: ToyModel) -> Mapping[str, Any]:
    ids = random_ids(toy, 1, _SHORT, seed=5)
    return {"input_ids": ids, "labels": ids.clone(), **switches(toy)}


def _embedded(toy: ToyModel) -> Mapping[str, Any]:
    labels = random_ids(toy, 1, _SHORT, seed=3)
    labels[0, 2] = _OTHER_IGNORED
    return {**_embeddings(toy), "labels": labels, "ignore_index": _OTHER_IGNORED, **switches(toy)}


def _embedded_row(toy: ToyModel) -> Mapping[str, Any]:
    """One row: no token says where padding begins."""
    return {**_embeddings(toy), "labels": torch.ones(1, dtype=torch.long), **switches(toy)}


def _embeddings(toy: ToyModel) -> dict[str, torch.Tensor]:
    embeddings: Any = toy.model.get_input_embeddings()
    return {"inputs_embeds": random_floats(1, _SHORT, embeddings.weight.shape[-1])}
