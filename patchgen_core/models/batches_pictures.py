"""Batches with pictures: where placeholders in the text say where they belong, or beside the text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch

from patchgen_core.models.batches import Form, ToyModel, WantedBatches
from patchgen_core.models.batches_media import Medium, feature_counts, find_function, find_medium, rows_with_one
from patchgen_core.models.batches_text import labels_for, random_ids, switches, text_inputs
from patchgen_core.models.picture_inputs import Pictures, picture_inputs, vision_config, vision_of
from patchgen_core.models.random_values import random_floats

_METHOD = "get_image_features"
_LENGTH = 12
_ABOUT = "a picture in each of two rows, or two in one row"


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
        yield WantedBatches("pictures", tuple(forms), media=("pixel_values",), about=_ABOUT)


def _batch(toy: ToyModel, medium: Medium, pictures: Pictures) -> Mapping[str, Any]:
    counts = feature_counts(toy, _METHOD, pictures.inputs, pictures.count)
    return rows_with_one(toy, medium, counts, pictures.inputs, "pictures")


def _beside_forms(toy: ToyModel) -> Iterator[Form]:
    """The form for a model that says nothing of placeholders for pictures."""
    if not {"flattened_patches", "pixel_values"} & toy.takes:
        return
    side = vision_of(toy).side
    if "flattened_patches" in toy.takes:
        inputs = {"flattened_patches": _flattened_patches(toy)}
    else:
        inputs = {"pixel_values": random_floats(2, 3, side, side)}
    if "cross_attention_mask" in toy.takes and "aspect_ratio_ids" in toy.takes:
        yield partial(_attended, toy, side)
    elif "image_embeds_position_mask" in toy.takes:
        yield partial(_marked, toy, inputs)
    elif "image_attention_mask" in toy.takes:
        yield partial(_masked, toy, side)
    elif "input_ids" in toy.takes:
        yield partial(_beside, toy, inputs, side)
    else:
        yield partial(_picture_alone, toy, inputs)


def _text(toy: ToyModel, count: int = 0, token: int | None = None) -> tuple[dict[str, Any], torch.Tensor]:
    """Two rows of text, and which places of them (rows, length) belong to pictures: ``count``, with a placeholder."""
    ids = random_ids(toy, 2, _LENGTH + count)
    placed = torch.zeros_like(ids).bool()
    placed[:, 2 : 2 + count] = True
    ids = ids if token is None else ids.masked_fill(placed, token)
    return text_inputs(toy, ids, torch.ones_like(ids), placed), placed


def _beside(toy: ToyModel, stacked: Mapping[str, Any], side: int) -> Mapping[str, Any]:
    """Pictures beside the text, with what else is asked for; two frames each where a video has placeholders."""
    medium = find_medium(toy, "video")
    if medium is None:
        inputs, _ = _text(toy)
    else:
        inputs, _ = _text(toy, 2 * toy.config.num_query_tokens, medium.token)
        stacked = {"pixel_values": random_floats(2, 2, 3, side, side)}
    more = {
        "qformer_input_ids": torch.arange(1, 13).reshape(2, 6),
        "bbox": random_floats(*inputs["input_ids"].shape, 4).abs() / 2,
    }
    return {**inputs, **stacked, **{name: value for name, value in more.items() if name in toy.takes}}


def _picture_alone(toy: ToyModel, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """A picture, and what is to be said of it."""
    labels = None if toy.kind == "base" else labels_for(toy, random_ids(toy, 2, _LENGTH), None)
    return {**inputs, **({} if labels is None else {"labels": labels}), **switches(toy)}


def _attended(toy: ToyModel, side: int) -> Mapping[str, Any]:
    """Pictures of one tile and of two, which the text attends to."""
    tiles = toy.config.vision_config.max_num_tiles
    mask = torch.zeros(2, 1, tiles, dtype=torch.long)
    mask[0, :, :1], mask[1, :, :2] = 1, 1
    medium = find_medium(toy, "image")
    inputs, placed = _text(toy, 1, medium.token if medium is not None else None)
    return inputs | {
        "pixel_values": random_floats(2, 1, tiles, 3, side, side) * mask[..., None, None, None],
        "aspect_ratio_ids": torch.tensor([[1], [2]]),
        "aspect_ratio_mask": mask,
        "cross_attention_mask": mask[:, None].repeat(1, placed.shape[1], 1, 1),
    }


def _marked(toy: ToyModel, picture_inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """A mask says which places of the text are a picture's."""
    inputs, placed = _text(toy, toy.config.latent_query_num)
    return {**inputs, **picture_inputs, "image_embeds_position_mask": placed}


def _masked(toy: ToyModel, side: int) -> Mapping[str, Any]:
    """A picture for each row, which all tokens but the first ones see."""
    mask = torch.ones(2, _LENGTH, 1, dtype=torch.long)
    mask[:, :2] = 0
    inputs, _ = _text(toy)
    return inputs | {"pixel_values": random_floats(2, 1, 3, side, side), "image_attention_mask": mask}


def _flattened_patches(toy: ToyModel) -> torch.Tensor:
    """Patches with their row and column, counted from 1."""
    places = torch.stack([torch.arange(8) // 4 + 1, torch.arange(8) % 4 + 1], -1)[None].repeat(2, 1, 1)
    return torch.cat([places.float(), random_floats(2, 8, toy.config.vision_config.patch_embed_hidden_size)], -1)
