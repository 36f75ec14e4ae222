"""Batches with media in other orders, numbers and forms than :mod:`batches_pictures` and its neighbours have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch

from patchgen_core.models.batches import Form, ToyModel, WantedBatches
from patchgen_core.models.batches_audio import sound_inputs
from patchgen_core.models.batches_media import Medium, Piece, feature_counts, find_function, find_medium, with_media
from patchgen_core.models.picture_inputs import Pictures, patches, picture_inputs, vision_config, vision_of

IN_A_ROW = "pictures in a row"
_PICTURES, _VIDEOS = "get_image_features", "get_video_features"
_VIDEO_SIZES = [[2, 1, 2], [3, 2, 1]]
_RATES = (2.0, 0.5)


def mixed_batches(toy: ToyModel) -> Iterator[WantedBatches]:
    """What comes with a model's media in real data.

    - *pictures in a row*: two of them, above a row without;
    - *features of pictures*: what the tower gives, in place of what it takes (``mm_encoder_outputs``);
    - *videos first*: two of unlike length, size and rate, and a picture behind them;
    - *videos alone*: the same without a picture;
    - *sounds in a row*: two of unlike length, above a row without;
    - *sound in video*: a row for each video, with the sound that belongs to it, of unlike length.
    """
    picture, video, sound = (find_medium(toy, name) for name in ("image", "video", "audio"))
    has_tower = vision_config(toy) is not None
    if picture is not None and has_tower and find_function(toy, _PICTURES) is not None:
        kinds = [pictures for pictures in picture_inputs(toy) if pictures.count > 1]
        yield _wanted(IN_A_ROW, (partial(_in_a_row, toy, picture, one) for one in kinds), "pixel_values")
        if "mm_encoder_outputs" in toy.takes:
            forms = (partial(_features, toy, picture, one) for one in kinds)
            yield WantedBatches("features of pictures", tuple(forms))
    if video is not None and has_tower and {"video_grid_thw", "image_grid_thw"} <= toy.takes and picture is not None:
        forms = (partial(_videos_first, toy, video, picture, stretched) for stretched in (True, False))
        yield _wanted("videos first", forms, "pixel_values", "pixel_values_videos")
        forms = (partial(_videos_first, toy, video, None, stretched) for stretched in (True, False))
        yield _wanted("videos alone", forms, "pixel_values_videos")
    if sound is not None and "input_features" in toy.takes:
        sounds = [inputs for count, inputs in sound_inputs(toy) if count > 1]
        yield _wanted(
            "sounds in a row", (partial(_sounds_in_a_row, toy, sound, one) for one in sounds), "input_features"
        )
        if video is not None and "use_audio_in_video" in toy.takes:
            sounds = [inputs for _, inputs in sorted(sound_inputs(toy), key=lambda one: one[0], reverse=True)]
            forms = (partial(_sound_in_video, toy, video, sound, one) for one in sounds)
            yield _wanted("sound in video", forms, "input_features", "pixel_values_videos")


def _wanted(name: str, forms: Iterator[Form], *media: str) -> WantedBatches:
    return WantedBatches(name, tuple(forms), media=media)


def _in_a_row(toy: ToyModel, medium: Medium, pictures: Pictures) -> Mapping[str, Any]:
    counts = feature_counts(toy, _PICTURES, pictures.inputs, pictures.count)
    return with_media(toy, [[Piece(medium, count) for count in counts], []], pictures.inputs)


def _features(toy: ToyModel, medium: Medium, pictures: Pictures) -> Mapping[str, Any]:
    inputs = dict(_in_a_row(toy, medium, pictures))
    encode = find_function(toy, _PICTURES)
    assert encode is not None
    features = encode(**pictures.inputs, return_dict=True)
    del inputs["pixel_values"]
    return {**inputs, "mm_encoder_outputs": {"image": features}}


def _videos_first(toy: ToyModel, video: Medium, picture: Medium | None, is_stretched: bool) -> Mapping[str, Any]:
    """One stretch of placeholders for a video, or one for each frame; behind them a picture, if one is given."""
    vision = vision_of(toy)
    values, grids = next(patches(vision, _VIDEO_SIZES))
    rates = {"second_per_grid_ts": torch.tensor(_RATES), "video_second_per_grid": torch.tensor(_RATES)}
    merges = {"video_merge_sizes": torch.tensor([vision.merge] * len(_RATES))}
    more = {name: value for name, value in (rates | merges).items() if name in toy.takes}
    videos = {"pixel_values_videos": values, "video_grid_thw": grids, **more}
    row = []
    for (frames, _, _), count in zip(_VIDEO_SIZES, feature_counts(toy, _VIDEOS, videos, len(_VIDEO_SIZES))):
        stretches = frames if is_stretched else 1
        row += [Piece(video, count // stretches)] * stretches
    if picture is None:
        return with_media(toy, [row], videos)
    still, grid = next(patches(vision, [[1, 2, 1]]))
    pictures = {"pixel_values": still, "image_grid_thw": grid}
    if "image_merge_sizes" in toy.takes:
        pictures["image_merge_sizes"] = torch.tensor([vision.merge])
    row.append(Piece(picture, sum(feature_counts(toy, _PICTURES, pictures, 1))))
    return with_media(toy, [row], {**videos, **pictures})


def _sounds_in_a_row(toy: ToyModel, medium: Medium, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    return with_media(toy, [[Piece(medium, count) for count in _sound_counts(toy, inputs)], []], inputs)


def _sound_counts(toy: ToyModel, inputs: Mapping[str, Any]) -> list[int]:
    things = len(inputs["input_features"])
    if find_function(toy, "get_audio_features") is not None:
        return feature_counts(toy, "get_audio_features", inputs, things)
    tower: Any = find_function(toy, "audio_tower")
    counts: list[int] = tower._get_feat_extract_output_lengths(inputs["feature_attention_mask"].sum(-1))[1].tolist()
    return counts


def _sound_in_video(toy: ToyModel, video: Medium, sound: Medium, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """In each row the placeholders of a video before those of its sound, between the marks of both."""
    things = len(inputs["input_features"])
    values, grids = next(patches(vision_of(toy), _VIDEO_SIZES[:1] * things))
    rates = {"second_per_grid_ts": torch.ones(things), "video_second_per_grid": torch.ones(things)}
    videos = {"pixel_values_videos": values, "video_grid_thw": grids}
    videos |= {name: value for name, value in rates.items() if name in toy.takes}
    counts = feature_counts(toy, _VIDEOS, videos, things)
    whole = Medium("video", video.number, video.token)
    inner = Medium("audio", sound.number, sound.token)
    rows = [[Piece(whole, seen), Piece(inner, heard)] for seen, heard in zip(counts, _sound_counts(toy, inputs))]
    marks = (video.start, sound.start), (sound.end, video.end)
    return with_media(toy, rows, {**videos, **inputs, "use_audio_in_video": True}, marks)
