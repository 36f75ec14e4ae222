"""Toy pictures in the forms in which the families' ``get_image_features`` take them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from patchgen_core.parity.batches import ToyModel
from patchgen_core.parity.batches_media import parameters_of
from patchgen_core.parity.batches_text import random_floats, random_ids
from patchgen_core.parity.toy_sizes import FIRST_ORDINARY_TOKEN

_GRIDS = ("image_grid_thw", "grid_thws", "image_grid_hws", "image_grid_hw")
_VISIONS = ("vision_config", "vq_config", "vision_tower_config", "perception_config", "vit_config")


@dataclass(frozen=True)
class Pictures:
    """Some pictures, as a model takes them.

    Attributes:
        inputs: arguments of ``forward`` and of ``get_image_features``.
        count: how many there are.
    """

    inputs: Mapping[str, Any]
    count: int


@dataclass(frozen=True)
class Vision:
    """What a configuration says of the part that sees.

    Attributes:
        side: how many pixels high and wide its pictures are, unless they may have any size.
        patch: how many pixels high and wide a patch is.
        frames: how many frames of a video go into one patch.
        merge: how many patches, in each direction, become one row of features.
    """

    side: int
    patch: int
    frames: int
    merge: int


def vision_config(toy: ToyModel) -> Any:
    """The configuration of what sees; None where the model does not."""
    found = (getattr(toy.config, name, None) for name in _VISIONS)
    return next((config for config in found if config is not None), None)


def vision_of(toy: ToyModel) -> Vision:
    """The sizes of pictures."""
    vision = vision_config(toy)
    side = getattr(vision, "image_size", None) or 36
    merges = (getattr(part, name, None) for part in (vision, toy.config) for name in ("spatial_merge_size", "merge_kernel_size"))
    merge = next((size for size in merges if size), 2)
    return Vision(
        _one(side),
        _one(getattr(vision, "patch_size", None) or 6),
        getattr(vision, "temporal_patch_size", None) or getattr(vision, "patch_temporal", None) or 1,
        _one(merge),
    )


def _one(size: Any) -> int:
    return int(size if isinstance(size, int) else size[0])


def picture_inputs(toy: ToyModel) -> Iterator[Pictures]:
    """Pictures for a model, what it is likeliest to take first."""
    takes = parameters_of(toy, "get_image_features") - {"args", "kwargs"} or set(toy.takes)
    vision = vision_of(toy)
    grid = next((name for name in _GRIDS if name in takes), None)
    if grid is not None:
        merges = {"image_merge_sizes": torch.tensor([vision.merge] * 2)} if "image_merge_sizes" in takes else {}
        for values, grids in patches(vision, [[1, 2, 2], [1, 2, 3]]):
            yield Pictures({"pixel_values": values, grid: grids if "thw" in grid else grids[:, 1:], **merges}, 2)
    elif "spatial_shapes" in takes:
        yield _packed_patches(vision)
    elif "target_sizes" in takes:
        yield from _strips(vision)
    elif "image_position_ids" in takes:
        yield from _placed_patches(toy, vision)
    elif "image_token_pooling" in takes:
        yield _pooled_patches(vision)
    else:
        yield from _pixels(toy, vision, takes)


def patches(vision: Vision, sizes: list[list[int]]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Patches of pictures one after another, in several forms, and their grids of patches.

    Args:
        vision: the sizes of patches.
        sizes: for each picture frames, height and width, in rows of features.
    """
    grids = torch.tensor([[t, h * vision.merge, w * vision.merge] for t, h, w in sizes])
    count, patch = int(grids.prod(-1).sum()), vision.patch
    yield random_floats(count, 3 * vision.frames * patch * patch), grids
    yield random_floats(count, 3, patch, patch), grids
    yield random_floats(count // vision.merge**2, vision.merge * patch, vision.merge * patch, 3), grids // vision.merge


def _packed_patches(vision: Vision) -> Pictures:
    """Rows of patches, padded to the same length."""
    shapes = torch.tensor([[2, 2], [2, 4]])
    mask = (torch.arange(8)[None] < shapes.prod(-1)[:, None]).long()
    values = random_floats(2, 8, 3 * vision.patch**2) * mask[..., None]
    return Pictures({"pixel_values": values, "spatial_shapes": shapes, "pixel_attention_mask": mask}, 2)


def _strips(vision: Vision) -> Iterator[Pictures]:
    """All patches of all pictures side by side."""
    for merge in (4, 8):
        sizes = torch.tensor([[merge, merge], [merge, 2 * merge]], dtype=torch.int32)
        width = int(sizes.prod(-1).sum()) * vision.patch
        yield Pictures({"pixel_values": random_floats(1, 3, vision.patch, width), "target_sizes": sizes}, 2)


def _placed_patches(toy: ToyModel, vision: Vision) -> Iterator[Pictures]:
    """Rows of patches with the place of each in its picture; the second picture is smaller and padded."""
    pool = getattr(vision_config(toy), "pooling_kernel_size", None) or 1
    rows, columns = 2 * pool, 3 * pool
    across = torch.arange(rows * columns) % columns
    down = torch.arange(rows * columns) // columns
    places = torch.stack([across, down], -1)[None].repeat(2, 1, 1)
    small = rows * 2 * pool
    places[1] = -1
    places[1, :small, 0], places[1, :small, 1] = torch.arange(small) % (2 * pool), torch.arange(small) // (2 * pool)
    sides = (vision.patch, getattr(vision_config(toy), "model_patch_size", None) or vision.patch * pool)
    for side in sides:
        values = random_floats(2, rows * columns, 3 * side * side).abs() / 2
        yield Pictures({"pixel_values": values, "image_position_ids": places}, 2)


def _pooled_patches(vision: Vision) -> Pictures:
    """Two crops of a picture, and which patches make one row of features."""
    across = vision.side // vision.patch
    pooling = torch.stack([torch.arange(4) + 4 * row for row in range(6)])[None]
    grids = torch.tensor([[1, 2, 2, 2]])
    values = random_floats(1, 2, across**2, 3 * vision.patch**2)
    return Pictures({"pixel_values": values, "image_token_pooling": pooling, "image_grids": grids}, 1)


def _pixels(toy: ToyModel, vision: Vision, takes: set[str]) -> Iterator[Pictures]:
    """Pictures in pixels: of several sizes, small ones, in tiles, of the configuration's size."""
    full, small = vision.side, vision.side // 3
    step = vision.patch * vision.merge
    more = _companions(toy, takes, full)
    if "image_sizes" in takes:
        sizes = torch.tensor([[2 * step, 2 * step], [2 * step, 3 * step]])
        values = random_floats(2, 3, 2 * step, 3 * step)
        values[0, :, :, 2 * step :] = 0
        yield Pictures({"pixel_values": values, "image_sizes": sizes}, 2)
        for tiles, size in ((1, [full, full]), (3, [2 * full - 6, full - 6])):
            values = random_floats(1, tiles, 3, full, full)
            yield Pictures({"pixel_values": values, "image_sizes": torch.tensor([size])}, 1)
        yield Pictures({"pixel_values": random_floats(1, 3, full, full), "image_sizes": torch.tensor([[full, full]])}, 1)
    if "pixel_attention_mask" in takes:
        yield _masked(vision)
        yield Pictures(_tiles(full), 2)
    for count, side in ((2, small), (2, full), (1, full)):
        yield Pictures({"pixel_values": random_floats(count, 3, side, side), **_sized(more, count, side)}, count)
    yield Pictures({"pixel_values": random_floats(2, 1, 3, full, full), **_sized(more, 2, full)}, 2)
    yield Pictures({"pixel_values": random_floats(1, 1, 3, full, full), **_sized(more, 1, full)}, 1)


def _masked(vision: Vision) -> Pictures:
    """A picture for each row, of which the second one is smaller."""
    side = vision.side
    mask = torch.ones(2, 1, side, side, dtype=torch.long)
    mask[1, :, side // 2 :] = 0
    values = random_floats(2, 1, 3, side, side) * mask[:, :, None]
    return Pictures({"pixel_values": values, "pixel_attention_mask": mask}, 2)


def _tiles(side: int) -> dict[str, torch.Tensor]:
    """A picture of one tile and one of two."""
    mask = torch.tensor([[True, False], [True, True]])
    return {"pixel_values": random_floats(2, 2, 3, side, side), "pixel_attention_mask": mask}


def _companions(toy: ToyModel, takes: set[str], side: int) -> dict[str, torch.Tensor]:
    """What some models want beside two pictures."""
    more = {}
    if "qformer_input_ids" in takes:
        more["qformer_input_ids"] = random_ids(toy, 2, 6) - FIRST_ORDINARY_TOKEN
    if "high_res_pixel_values" in takes:
        more["high_res_pixel_values"] = random_floats(2, 3, side, side, seed=1)
    return more


def _sized(more: Mapping[str, torch.Tensor], count: int, side: int) -> dict[str, torch.Tensor]:
    return {name: value[:count] for name, value in more.items()}
