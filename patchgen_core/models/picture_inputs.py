"""Toy pictures in the forms in which the families' ``get_image_features`` take them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from patchgen_core.models.batches import ToyModel
from patchgen_core.models.batches_media import parameters_of
from patchgen_core.models.random_values import random_floats


@dataclass(frozen=True)
class Pictures:
    """Some pictures, as arguments of ``forward`` and of ``get_image_features``."""

    inputs: Mapping[str, Any]
    count: int = 2


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
    configs = [getattr(toy.config, name, None) for name in ("vision_config", "vq_config", "encoder")]
    if isinstance(getattr(toy.config, "patch_size", None), int):
        configs.append(toy.config)
    return next((config for config in configs if config is not None), None)


def vision_of(toy: ToyModel) -> Vision:
    """The sizes of pictures."""
    vision = vision_config(toy)
    merges = (
        getattr(part, name, None)
        for part in (vision, toy.config)
        for name in ("spatial_merge_size", "merge_kernel_size")
    )
    return Vision(
        _one(getattr(vision, "image_size", None) or 36),
        _one(getattr(vision, "patch_size", None) or _coded(vision) or 6),
        getattr(vision, "temporal_patch_size", None) or getattr(vision, "patch_temporal", None) or 1,
        _one(next(filter(None, merges), 2)),
    )


def _coded(vision: Any) -> int:
    """How many pixels high and wide is what becomes one code; 0 where pictures do not become codes."""
    levels = getattr(vision, "channel_multiplier", None)
    return 2 ** (len(levels) - 1) if levels else 0


def _one(size: Any) -> int:
    return int(size if isinstance(size, int) else size[0])


def picture_inputs(toy: ToyModel) -> Iterator[Pictures]:
    """Pictures for a model, what it is likeliest to take first."""
    takes = parameters_of(toy, "get_image_features") - {"args", "kwargs"} or toy.takes
    vision = vision_of(toy)
    if "image_grid_thw" in takes:
        merges = {"image_merge_sizes": torch.tensor([vision.merge] * 2)} if "image_merge_sizes" in takes else {}
        for values, grids in patches(vision, [[1, 2, 2], [1, 2, 3]]):
            yield Pictures({"pixel_values": values, "image_grid_thw": grids, **merges})
    elif "spatial_shapes" in takes:
        yield _packed_patches(vision)
    elif "target_sizes" in takes:
        values, sizes = strip(vision)
        yield Pictures({"pixel_values": values, "target_sizes": sizes})
    elif "image_position_ids" in takes:
        values, places = placed_patches(toy, [3, 2])
        yield Pictures({"pixel_values": values, "image_position_ids": places})
    elif "image_token_pooling" in takes:
        values, pooling = pooled_patches(vision)
        grids = torch.tensor([[1, 2, 2, 2]])
        yield Pictures({"pixel_values": values, "image_token_pooling": pooling, "image_grids": grids}, 1)
    elif vision_config(toy) is toy.config:
        yield Pictures({"pixel_values": random_floats(2, 4, 3 * vision.patch**2)})
    else:
        yield from _pixels(vision, takes)


def patches(vision: Vision, sizes: list[list[int]]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Patches of pictures one after another, in several forms, and their grids of patches.

    The sizes are frames, height and width of each picture, in rows of features.
    """
    rows = torch.tensor(sizes)
    grids = rows * torch.tensor([1, vision.merge, vision.merge])
    count, patch, wide = int(grids.prod(-1).sum()), vision.patch, vision.merge * vision.patch
    yield random_floats(count, 3 * vision.frames * patch * patch), grids
    yield random_floats(count, 3, patch, patch), grids
    yield random_floats(int(rows.prod(-1).sum()), wide, wide, 3), rows


def _packed_patches(vision: Vision) -> Pictures:
    """Rows of patches, padded to the same length."""
    shapes = torch.tensor([[2, 2], [2, 4]])
    mask = (torch.arange(8)[None] < shapes.prod(-1)[:, None]).long()
    values = random_floats(2, 8, 3 * vision.patch**2) * mask[..., None]
    return Pictures({"pixel_values": values, "spatial_shapes": shapes, "pixel_attention_mask": mask})


def strip(vision: Vision) -> tuple[torch.Tensor, torch.Tensor]:
    """All patches of two pictures side by side, and how many rows and columns of patches each has."""
    sizes = torch.tensor([[4, 4], [4, 8]], dtype=torch.int32)
    return random_floats(1, 3, vision.patch, int(sizes.prod(-1).sum()) * vision.patch), sizes


def placed_patches(toy: ToyModel, widths: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of patches, padded to the same length, and the column and row of each patch, -1 for padding.

    The widths are in rows of features; all pictures are two high.
    """
    config = vision_config(toy)
    side = getattr(config, "model_patch_size", None)
    pool = 1 if side else getattr(config, "pooling_kernel_size", None) or 1
    places = torch.full((len(widths), 2 * pool * max(widths) * pool, 2), -1)
    for picture, width in zip(places, widths):
        index = torch.arange(2 * pool * width * pool)
        picture[: len(index)] = torch.stack([index % (width * pool), index // (width * pool)], -1)
    side = side or vision_of(toy).patch
    return random_floats(*places.shape[:2], 3 * side * side).abs() / 2, places


def pooled_patches(vision: Vision) -> tuple[torch.Tensor, torch.Tensor]:
    """The patches of two crops or frames, and which four of them make each of six rows of features."""
    across = vision.side // vision.patch
    return random_floats(1, 2, across**2, 3 * vision.patch**2), torch.arange(24).reshape(6, 4)


def _pixels(vision: Vision, takes: Collection[str]) -> Iterator[Pictures]:
    """Pictures in pixels: of several sizes, in tiles, small ones, of the configuration's size."""
    full, step = vision.side, vision.patch * vision.merge
    if "image_sizes" in takes:
        sizes = torch.tensor([[2 * step, 2 * step], [2 * step, 3 * step]])
        values = random_floats(2, 3, 2 * step, 3 * step)
        values[0, :, :, 2 * step :] = 0
        yield Pictures({"pixel_values": values, "image_sizes": sizes})
        flat = torch.tensor([[full // 6, 2 * full - 12]])  # little is left of it between the margins
        yield Pictures({"pixel_values": random_floats(1, 3, 3, full, full), "image_sizes": flat}, 1)
        square = torch.tensor([[full, full]] * 2)
        yield Pictures({"pixel_values": random_floats(2, 3, full, full), "image_sizes": square})
    if "pixel_attention_mask" in takes:
        yield _masked(full)
        yield _tiles(full)
    for count, side in ((2, full // 3), (2, full), (1, full)):
        pixels = {"pixel_values": random_floats(count, 3, side, side)}
        yield Pictures({**pixels, **_companions(takes, count, full)}, count)


def _masked(side: int) -> Pictures:
    """A picture for each row, of which the second one is smaller."""
    mask = torch.ones(2, 1, side, side, dtype=torch.long)
    mask[1, :, side // 2 :] = 0
    values = random_floats(2, 1, 3, side, side) * mask[:, :, None]
    return Pictures({"pixel_values": values, "pixel_attention_mask": mask})


def _tiles(side: int) -> Pictures:
    """A picture of one tile and one of two."""
    mask = torch.tensor([[True, False], [True, True]])
    return Pictures({"pixel_values": random_floats(2, 2, 3, side, side), "pixel_attention_mask": mask})


def _companions(takes: Collection[str], count: int, side: int) -> dict[str, torch.Tensor]:
    """What some models want beside pictures."""
    more = {
        "qformer_input_ids": torch.arange(1, 6 * count + 1).reshape(count, 6),
        "high_res_pixel_values": random_floats(count, 3, side, side, seed=1),
    }
    return {name: value for name, value in more.items() if name in takes}
