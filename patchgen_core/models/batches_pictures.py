"""Batches with pictures where placeholders in the text say where they belong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from patchgen_core.models.batches import Form, ToyModel, Wanted
from patchgen_core.models.batches_beside_text import beside_forms
from patchgen_core.models.batches_media import Medium, Piece, feature_counts, find_function, find_medium, with_media
from patchgen_core.models.picture_inputs import Pictures, picture_inputs, vision_config

_METHOD = "get_image_features"
_MOST = 40


def picture_batches(toy: ToyModel) -> Iterator[Wanted]:
    """A picture in each of two rows, or in one row where a picture has many placeholders.

    Pictures have different sizes where the model takes any size; the shorter row is padded.
    """
    medium = find_medium(toy, "image")
    forms: list[Form] = []
    if medium is not None and find_function(toy, _METHOD) is not None and vision_config(toy) is not None:
        forms += [partial(_batch, toy, medium, pictures) for pictures in picture_inputs(toy)]
    forms = forms or list(beside_forms(toy))
    if forms:
        yield Wanted("pictures", tuple(forms), media=("pixel_values",))


def _batch(toy: ToyModel, medium: Medium, pictures: Pictures) -> Mapping[str, Any]:
    counts = feature_counts(toy, _METHOD, pictures.inputs, pictures.count)
    if pictures.count > 1 and sum(counts) > _MOST:
        raise ValueError(f"{pictures.count} pictures have {sum(counts)} placeholders")
    return with_media(toy, [[Piece(medium, count)] for count in counts], pictures.inputs)
