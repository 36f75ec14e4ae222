"""Batches with pictures: where placeholders in the text say where they belong, or beside the text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch

from patchgen_core.models.batches import Form, ToyModel, WantedBatches
from patchgen_core.models.batches_media import Medium, feature_counts, find_function, find_medium, rows_with_one
from patchgen_core.models.batches_text import labels_for, random_ids, switches, text_inputs
from patchgen_core.models.picture_inputs import Pictures, Vision, picture_inputs, vision_config, vision_of
from patchgen_core.models.random_values import random_floats

_METHOD = "get_image_features"
_LENGTH = 12


def picture_batches(toy: ToyModel) -> Iterator[WantedBatches]:
    """A picture in each of two rows, or in one row where a picture has many placeholders.

    Pictures have different sizes where the model takes any size; the shorter row is padded.
    """
    medium = find_medium(toy, "image")
    forms: list[Form] = []
    if medium is not None and find_function(toy, _METHOD) is not None and vision_config(toy) is not None:
        forms += [partial(_batch, toy, medium, pictures) for pictures in picture_inputs(toy)]
    forms = forms or list(_beside_forms(toy))
    if forms:
        yield WantedBatches("pictures", tuple(forms), media=("pixel_values",))


def _batch(toy: ToyModel, medium: Medium, pictures: Pictures) -> Mapping[str, Any]:
    counts = feature_counts(toy, _METHOD, pictures.inputs, pictures.count)
    return rows_with_one(toy, medium, counts, pictures.inputs, "pictures")


def _beside_forms(toy: ToyModel) -> Iterator[Form]:
    """The forms for a model that says nothing of placeholders, what it is likeliest to take first."""
    if "flattened_patches" in toy.takes:
        yield from _patches(toy)
    if "pixel_values" not in toy.takes:
        return
    vision = vision_of(toy)
    if "cross_attention_mask" in toy.takes and "aspect_ratio_ids" in toy.takes:
        yield partial(_attended, toy, vision)
    if "image_embeds_position_mask" in toy.takes:
        yield partial(_marked, toy, {"pixel_values": random_floats(2, 3, vision.side, vision.side)})
    if "image_attention_mask" in toy.takes:
        yield partial(_masked, toy, vision)
    yield from _beside(toy, vision)


def _beside(toy: ToyModel, vision: Vision) -> Iterator[Form]:
    """Text and pixels, with what else is asked for."""
    side = vision.side
    pixels = {"pixel_values": random_floats(2, 3, side, side)}
    frames = {"pixel_values": random_floats(2, 2, 3, side, side)}
    medium = find_medium(toy, "image") or find_medium(toy, "video")
    queries = getattr(toy.config, "num_query_tokens", 0) if medium is not None else 0
    token = medium.token if medium is not None else 0
    for given, counts in ((pixels, (queries, 0)), (frames, (2 * queries, queries, 0))):
        for count in dict.fromkeys(counts):
            yield partial(_text_and, toy, given, token, count)
    yield partial(_picture_alone, toy, pixels)


def _text_and(toy: ToyModel, given: Mapping[str, Any], token: int, count: int) -> Mapping[str, Any]:
    """Text after ``count`` placeholders, and the pictures."""
    ids = random_ids(toy, 2, _LENGTH + count)
    mask = torch.ones_like(ids)
    placed = torch.zeros_like(ids).bool()
    placed[:, 2 : 2 + count] = True
    more: dict[str, Any] = {}
    if "qformer_input_ids" in toy.takes:
        more["qformer_input_ids"] = torch.arange(1, 13).reshape(2, 6)
    if "bbox" in toy.takes:
        more["bbox"] = random_floats(*ids.shape, 4).abs() / 2
    return text_inputs(toy, ids.masked_fill(placed, token), mask, placed) | dict(given) | more


def _picture_alone(toy: ToyModel, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """A picture, and what is to be said of it."""
    labels = None if toy.kind == "base" else labels_for(toy, random_ids(toy, 2, _LENGTH), None)
    return dict(given) | ({} if labels is None else {"labels": labels}) | switches(toy)


def _attended(toy: ToyModel, vision: Vision) -> Mapping[str, Any]:
    """Pictures of one tile and of two, which the text attends to."""
    tiles = toy.config.vision_config.max_num_tiles
    mask = torch.zeros(2, 1, tiles, dtype=torch.long)
    mask[0, :, :1], mask[1, :, :2] = 1, 1
    values = random_floats(2, 1, tiles, 3, vision.side, vision.side) * mask[..., None, None, None]
    medium = find_medium(toy, "image")
    ids = random_ids(toy, 2, _LENGTH)
    placed = torch.zeros_like(ids).bool()
    if medium is not None:
        placed[:, 0] = True
        ids[:, 0] = medium.token
    return text_inputs(toy, ids, torch.ones_like(ids), placed) | {
        "pixel_values": values,
        "aspect_ratio_ids": torch.tensor([[1], [2]]),
        "aspect_ratio_mask": mask,
        "cross_attention_mask": mask[:, None].repeat(1, _LENGTH, 1, 1),
    }


def _marked(toy: ToyModel, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """A mask says which places of the text are a picture's."""
    ids = random_ids(toy, 2, _LENGTH)
    placed = torch.zeros_like(ids).bool()
    placed[:, 2 : 2 + toy.config.latent_query_num] = True
    inputs = text_inputs(toy, ids, torch.ones_like(ids), placed)
    return inputs | dict(given) | {"image_embeds_position_mask": placed}


def _masked(toy: ToyModel, vision: Vision) -> Mapping[str, Any]:
    """A picture for each row, which all tokens but the first ones see."""
    mask = torch.ones(2, _LENGTH, 1, dtype=torch.long)
    mask[:, :2] = 0
    values = random_floats(2, 1, 3, vision.side, vision.side)
    ids = random_ids(toy, 2, _LENGTH)
    return text_inputs(toy, ids, torch.ones_like(ids)) | {"pixel_values": values, "image_attention_mask": mask}


def _patches(toy: ToyModel) -> Iterator[Form]:
    """Patches with their row and column, counted from 1."""
    size = toy.config.vision_config.patch_embed_hidden_size
    places = torch.stack([torch.arange(8) // 4 + 1, torch.arange(8) % 4 + 1], -1)[None].repeat(2, 1, 1)
    for width in (size, getattr(toy.config.vision_config, "patch_size", 6) ** 2 * 3):
        values = torch.cat([places.float(), random_floats(2, 8, width)], -1)
        if "image_embeds_position_mask" in toy.takes:
            yield partial(_marked, toy, {"flattened_patches": values})
        yield partial(_picture_alone, toy, {"flattened_patches": values})
