"""The dimension ``generation``: tokens written one after another, with a cache."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from patchgen_core.checks.parity.dimensions.dimension import Dimension, Subject
from patchgen_core.errors import quote_some
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.batches_text import random_ids
from patchgen_core.models.modes_generation import (
    generated_by_beams,
    in_pieces,
    sampled,
    sampled_with_a_static_cache,
)

_PREPARE, _EXPAND = "prepare_inputs_for_generation", "_expand_inputs_for_generation"
_READ = re.compile(
    r"past_key|cache|position|_mask$|rotary|rotate|rope|logits_to_keep|for_generation|window|^(cos|sin)$"
)
_TEXTS, _MEDIA = ("padded", "rows"), ("pictures", "video", "sounds")
_FOR_TRAINING = {"labels", "use_cache", "output_router_logits"}
_MOST_NAMED = 2
_STEPS = 3
_PIECES = (3, 1)


def _find_reason(subject: Subject) -> str:
    if not subject.is_main and not subject.toy.model.can_generate():  # what it holds runs in the main head
        return ""
    if subject.is_kernel_alone:
        return ""
    names = _names_read(subject)
    return f"the patches name {quote_some(names, _MOST_NAMED)}" if names else "models write one token at a time"


def _names_read(subject: Subject) -> list[str]:
    """The names in patched code that have to do with what was before a token."""
    return sorted(name for name in subject.names if name.isidentifier() and _READ.search(name))


def _make_batches(subject: Subject) -> Iterator[ToyBatch]:
    """Two calls where patched code names nothing of what was before a token, and all else where it does."""
    batches = {batch.name: _as_prompt(batch) for batch in subject.batches if "input_ids" in batch.inputs}
    text = next((batches[name] for name in _TEXTS if name in batches), None)
    if text is None:
        return
    toy, names = subject.toy, _names_read(subject)
    is_full = bool(names) or subject.is_thorough
    has_cache = "past_key_values" in toy.takes and not toy.config.is_encoder_decoder
    if has_cache:
        yield text.in_mode(in_pieces(_PIECES, "in pieces") if is_full else in_pieces(_PIECES[-1:], "in two pieces"))
    if has_cache and "packed" in batches and (subject.is_thorough or any("position" in name for name in names)):
        yield batches["packed"].in_mode(in_pieces(_PIECES[-1:], "in two pieces"))
    shown = next((batches[name] for name in _MEDIA if name in batches), None)
    if has_cache and shown is not None and is_full and not subject.has_kernels:
        unmasked = {name: value for name, value in shown.inputs.items() if name != "attention_mask"}
        yield replace(shown, inputs=unmasked).in_mode(in_pieces(_PIECES[-1:], "in two pieces"))
    is_called = subject.is_main or _PREPARE in names  # by generate(), as far as patches may matter to it
    if toy.model.can_generate() and is_full and ((is_called and not subject.has_kernels) or subject.is_thorough):
        prompt = shown or text
        tokens = random_ids(toy, len(prompt.inputs["input_ids"]), _STEPS, seed=6)
        is_static = toy.model._can_compile_fullgraph  # as upstream says of the models that take such a cache
        yield prompt.in_mode(sampled_with_a_static_cache(tokens) if is_static else sampled(tokens))
        if _EXPAND in names or subject.is_thorough:
            yield prompt.in_mode(generated_by_beams(tokens))
        if is_static and subject.is_thorough:
            yield prompt.in_mode(sampled(tokens))


def _as_prompt(batch: ToyBatch) -> ToyBatch:
    """A batch without what is for training; where a row has padding on its right, that is on its left."""
    inputs = {name: value for name, value in batch.inputs.items() if name not in _FOR_TRAINING}
    mask = inputs.get("attention_mask")
    if not isinstance(mask, torch.Tensor) or mask.dim() != 2:
        return replace(batch, inputs=inputs)
    padded = (mask.flip(1).cumsum(1) == 0).sum(1).tolist()
    return replace(batch, inputs={name: _rolled(value, mask, padded) for name, value in inputs.items()})


def _rolled(value: Any, mask: torch.Tensor, padded: list[int]) -> Any:
    """A tensor that has something for each token, moved to the right row by row; anything else as it is."""
    if not isinstance(value, torch.Tensor) or value.shape[:2] != mask.shape:
        return value
    return torch.stack([row.roll(count, 0) for row, count in zip(value, padded)])


DIMENSION = Dimension("generation", _find_reason, _make_batches)
