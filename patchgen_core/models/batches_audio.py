"""Batches with sounds: mel features in rows of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch

from patchgen_core.models.batches import ToyModel, WantedBatches
from patchgen_core.models.batches_media import Medium, feature_counts, find_function, find_medium, rows_with_one
from patchgen_core.models.random_values import random_floats

_METHOD = "get_audio_features"
_CONFIGS = ("audio_config", "encoder_config")
_WIDTHS = ("num_mel_bins", "feature_size", "input_dim", "input_feat_size", "audio_embed_dim")
_MASKS = ("feature_attention_mask", "input_features_mask")
_FRAMES = 32


def audio_batches(toy: ToyModel) -> Iterator[WantedBatches]:
    """Two rows with a sound each, of different length, the shorter one padded; one row where a sound is long."""
    medium = find_medium(toy, "audio")
    if medium is not None and "input_features" in toy.takes:
        forms = tuple(partial(_batch, toy, medium, count, inputs) for count, inputs in sound_inputs(toy))
        yield WantedBatches("sounds", forms, media=("input_features",), seen_in="pictures", about="rows with sounds")


def _batch(toy: ToyModel, medium: Medium, count: int, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    if find_function(toy, _METHOD) is not None:
        counts = feature_counts(toy, _METHOD, inputs, count)
    else:
        tower: Any = find_function(toy, "audio_tower")
        counts = tower._get_feat_extract_output_lengths(inputs["feature_attention_mask"].sum(-1))[1].tolist()
    return rows_with_one(toy, medium, counts, inputs, "sounds")


def sound_inputs(toy: ToyModel) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """How many sounds, and the inputs, with the likeliest lengths first.

    Encoders take sounds of any length, or in chunks, or of the one length that they have positions for.
    """
    config = next(filter(None, (getattr(toy.config, name, None) for name in _CONFIGS)), toy.config)
    mel = next((size for name in _WIDTHS if (size := getattr(config, name, None))), 128)
    chunk = 2 * (getattr(config, "n_window", None) or _FRAMES // 2)
    whole = 2 * (getattr(config, "max_source_positions", None) or _FRAMES)
    masks = [name for name in _MASKS if name in toy.takes]
    for count, frames in ((2, chunk + 8), (1, chunk), (2, whole), (1, whole)):
        mask = torch.ones(count, frames, dtype=torch.long)
        mask[1:, frames // 2 + 1 :] = 0
        over_time = random_floats(count, frames, mel) * mask[..., None]
        yield count, {"input_features": over_time.transpose(1, 2).contiguous(), **dict.fromkeys(masks, mask)}
        yield count, {"input_features": over_time, **dict.fromkeys(masks, mask.bool())}
    if masks:  # masks of something else
        yield 2, {"input_features": random_floats(2, _FRAMES + 8, mel)}
