"""The dimension ``attention``: the other implementations of attention; flash attention by a stand-in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import torch

from patchgen_core.checks.parity.dimensions.configuration import find_changes
from patchgen_core.checks.parity.dimensions.dimension import Dimension, Subject
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.batches_text import lengths_of, two_sequences
from patchgen_core.models.modes_attention import FLEX, SDPA, attention_mode, find_flash, is_supported
from patchgen_core.models.modes_packed import ONE_BY_ONE

_MATTERS = re.compile(
    r"(?:.*attention(?!_mask$).*|.*attn.*|.*rotary.*|.*rope.*|cos|sin|.*causal_mask.*|.*sliding.*|cu_seq_?lens.*"
    r"|max_seqlen.*|is_causal|.*position_embeddings|[qkv]_proj|qkv)"
)
_LENGTHS = re.compile(r"cu_seq_?lens")
_TOWERS = frozenset({"cu_seqlens", "grid_thw", "feature_lens"})


def _find_reason(subject: Subject) -> str:
    names = sorted(name for name in subject.names if _MATTERS.fullmatch(name))
    return f"the patches are about '{names[0]}'" if names and not subject.has_kernels else ""


def _make_batches(subject: Subject) -> Iterator[ToyBatch]:
    """The most general batch, which has padding and media where the model takes them, and others that need no mask."""
    model, batches = subject.toy.model, {batch.name: batch for batch in subject.batches}
    general, rows, packed = next(iter(batches.values()), None), batches.get("rows"), batches.get("packed")
    flash = find_flash(model)
    if is_supported(model, SDPA) and rows is not None:
        yield rows.in_mode(attention_mode(SDPA, is_exact=True))
    is_masked = _TOWERS & subject.names or any("mask" in name for name in subject.names)
    if is_supported(model, SDPA) and general is not None and is_masked:
        yield general.in_mode(attention_mode(SDPA))
    if is_supported(model, flash) and general is not None:
        yield general.in_mode(attention_mode(flash))
        for window in find_changes(subject, ("sliding_window",)):
            yield general.in_mode(attention_mode(flash)).with_changes((window,))
    if is_supported(model, flash) and packed is not None:
        yield packed.in_mode(attention_mode(flash, is_exact=True))
        if "kwargs" in subject.toy.takes:
            yield _with_lengths(packed).in_mode(attention_mode(flash))
    if (
        packed is None
        and subject.toy.kind != "sequence_classification"
        and any(map(_LENGTHS.match, subject.own_names))
    ):
        for batch in subject.make(two_sequences).batches:
            yield replace(_by_positions(batch).in_mode(ONE_BY_ONE), trained=None)  # upstream's may refuse it whole
    if "flex" in " ".join(subject.names) and is_supported(model, FLEX) and rows is not None:
        yield rows.in_mode(attention_mode(FLEX))


def _with_lengths(packed: ToyBatch) -> ToyBatch:
    """A row of sequences that is cut by lengths as a collator gives them, elsewhere than its position ids tell."""
    tokens = packed.inputs["input_ids"].shape[-1]
    return _with_ends(packed, torch.tensor([0, tokens // 3, tokens]))


def _by_positions(row: ToyBatch) -> ToyBatch:
    """A row of sequences with the lengths that its position ids tell."""
    positions = row.inputs["position_ids"].flatten(0, -2)[0]
    return _with_ends(row, torch.tensor([*(positions == 0).nonzero().flatten().tolist(), len(positions)]))


def _with_ends(row: ToyBatch, ends: torch.Tensor) -> ToyBatch:
    return replace(row, name=f"{row.name} by lengths", inputs={**row.inputs, **lengths_of(ends)})


DIMENSION = Dimension("attention", _find_reason, _make_batches)
