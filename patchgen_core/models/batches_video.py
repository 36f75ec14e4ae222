"""Batches with a video, beside a picture where the model takes both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import torch

from patchgen_core.models.batches import Form, ToyModel, WantedBatches
from patchgen_core.models.batches_media import (
    Medium,
    Piece,
    feature_counts,
    find_function,
    find_medium,
    with_media,
)
from patchgen_core.models.picture_inputs import (
    patches,
    placed_patches,
    pooled_patches,
    strip,
    vision_config,
    vision_of,
)
from patchgen_core.models.random_values import random_floats

_METHOD = "get_video_features"
_FRAMES = 2


def video_batches(toy: ToyModel) -> Iterator[WantedBatches]:
    """A row with a picture and a video of two frames; the video alone where the model does not take them together."""
    medium = find_medium(toy, "video")
    if medium is None or find_function(toy, _METHOD) is None or vision_config(toy) is None:
        return
    if "pixel_values_videos" in toy.takes:
        yield WantedBatches(
            "video",
            tuple(_forms(toy, medium)),
            media=("pixel_values", "pixel_values_videos"),
            seen_in="pictures",
            about="a row with a video of two frames, beside a picture where the model takes both",
        )


def _forms(toy: ToyModel, medium: Medium) -> Iterator[Form]:
    """A video is one stretch of placeholders, or one for each frame; some families use those of pictures."""
    picture = find_medium(toy, "image")
    media = [medium, *([replace(medium, token=picture.token)] if picture else [])]
    inputs = _video_inputs(toy)
    for beside, kind, stretches in product((picture, None), media, (_FRAMES, 1)):
        yield partial(_batch, toy, kind, inputs, stretches, beside)


def _batch(
    toy: ToyModel, medium: Medium, inputs: Mapping[str, Any], stretches: int, picture: Medium | None
) -> Mapping[str, Any]:
    count = sum(feature_counts(toy, _METHOD, inputs, 1))
    row = [Piece(medium, count // stretches)] * stretches
    if picture is None:
        return with_media(toy, [row], inputs)
    if "video_grid_thw" not in inputs or "image_grid_thw" not in toy.takes:
        raise ValueError("only pictures and videos in patches are put into one row")
    values, grids = next(patches(vision_of(toy), [[1, 1, 3]]))
    merges = {"image_merge_sizes": torch.tensor([vision_of(toy).merge])} if "image_merge_sizes" in toy.takes else {}
    still = {"pixel_values": values, "image_grid_thw": grids, **merges}
    rows = sum(feature_counts(toy, "get_image_features", still, 1))
    return with_media(toy, [[Piece(picture, rows), *row]], {**still, **inputs})


def _video_inputs(toy: ToyModel) -> Mapping[str, Any]:
    vision = vision_of(toy)
    if "video_grid_thw" in toy.takes:
        values, grids = next(patches(vision, [[_FRAMES, 1, 2]]))
        more = {
            "second_per_grid_ts": torch.tensor([1.0]),
            "video_second_per_grid": torch.tensor([1.0]),
            "video_merge_sizes": torch.tensor([vision.merge]),
            "video_compression_mask": torch.ones(_FRAMES * 2, dtype=torch.bool),
        }
        taken = {name: value for name, value in more.items() if name in toy.takes}
        return {"pixel_values_videos": values, "video_grid_thw": grids, **taken}
    if "video_position_ids" in toy.takes:
        values, places = placed_patches(toy, [1] * _FRAMES)
        frames = torch.tensor([_FRAMES])
        return {"pixel_values_videos": values, "video_position_ids": places, "num_frames_per_video": frames}
    if "target_sizes_videos" in toy.takes:
        values, sizes = strip(vision)
        return {"pixel_values_videos": values, "target_sizes_videos": sizes}
    if "video_token_pooling" in toy.takes:
        values, pooling = pooled_patches(vision)
        grids = torch.tensor([[_FRAMES, 1, 3]])
        return {"pixel_values_videos": values, "video_token_pooling": pooling, "video_grids": grids}
    return {"pixel_values_videos": random_floats(1, _FRAMES, 3, vision.side, vision.side)}
