"""Pictures, videos and sounds in rows of text: as many placeholders as the model's own features have rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from patchgen_core.models.batches import ToyModel
from patchgen_core.models.batches_text import random_ids, text_inputs

_MEDIA = ("image", "video", "audio")
_BEFORE, _BETWEEN, _AFTER = 3, 1, 4
_MOST = 40


@dataclass(frozen=True)
class Medium:
    """A kind of thing that a row of text can hold: "image", "video" or "audio".

    ``number`` is what ``mm_token_type_ids`` calls it, ``token`` the placeholder's id; ``start`` and ``end`` are the
    ids around placeholders, None where the model has none.
    """

    name: str
    number: int
    token: int
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class Piece:
    """A stretch of placeholders."""

    medium: Medium
    count: int


def find_medium(toy: ToyModel, name: str) -> Medium | None:
    """What the configuration says of a medium; None where it has no placeholder for it."""
    token = _token(toy, f"{name}_token_id", f"{name}_token_index")
    if token is None:
        return None
    kinds = (name,) if name == "audio" else (name, "vision")
    start, end = (_token(toy, *(f"{kind}_{edge}_token_id" for kind in kinds)) for edge in ("start", "end"))
    return Medium(name, _MEDIA.index(name) + 1, token, start, end)


def _token(toy: ToyModel, *names: str) -> int | None:
    parts = (toy.config, toy.config.get_text_config(decoder=True))
    tokens = (getattr(part, name, None) for part in parts for name in names)
    return next((token for token in tokens if isinstance(token, int)), None)


Marks = tuple[Sequence[int | None], Sequence[int | None]]
"""Ids before all stretches of placeholders of a row, and behind them, which follow each other without text between."""


def with_media(
    toy: ToyModel, rows: Sequence[Sequence[Piece]], inputs: Mapping[str, Any], marks: Marks | None = None
) -> dict[str, Any]:
    """Rows of text with placeholders, the shorter ones padded on the right, and what goes with them.

    Each row is given by its stretches of placeholders, in the order of what they stand for.
    """
    laid = [_laid(row, marks) for row in rows]
    length = max(len(row) for row in laid)
    ids = random_ids(toy, len(rows), length)
    kinds = torch.zeros_like(ids)
    mask = torch.ones_like(ids)
    for index, row in enumerate(laid):
        for place, (token, kind) in enumerate(row):
            ids[index, place] = ids[index, place] if token is None else token
            kinds[index, place] = kind
        mask[index, len(row) :] = 0
    special = torch.tensor([[i < len(row) and row[i][0] is not None for i in range(length)] for row in laid])
    batch = text_inputs(toy, ids, mask, special)
    if "mm_token_type_ids" in toy.takes:
        batch["mm_token_type_ids"] = kinds
    if "token_type_ids" in toy.takes:
        batch["token_type_ids"] = (kinds == 1).long()
    if "moe_mm_token_type_ids" in toy.takes:
        batch["moe_mm_token_type_ids"] = (kinds > 0).long()
    return batch | dict(inputs)


def rows_with_one(
    toy: ToyModel, medium: Medium, counts: Sequence[int], inputs: Mapping[str, Any], things: str
) -> dict[str, Any]:
    """Rows of text with one thing each, by their counts of placeholders; ValueError when these are too many."""
    if len(counts) > 1 and sum(counts) > _MOST:
        raise ValueError(f"{len(counts)} {things} have {sum(counts)} placeholders")
    return with_media(toy, [[Piece(medium, count)] for count in counts], inputs)


def _laid(row: Sequence[Piece], marks: Marks | None) -> list[tuple[int | None, int]]:
    """For each place the id, None for text, and the kind."""
    text: tuple[int | None, int] = (None, 0)
    before, after = marks or ((), ())
    places = [*[text] * _BEFORE, *((mark, 0) for mark in before)]
    for index, piece in enumerate(row):
        medium = piece.medium
        places += [text] * _BETWEEN if index and marks is None else []
        places += [(medium.start, 0)] if medium.start is not None else []
        places += [(medium.token, medium.number)] * piece.count
        places += [(medium.end, 0)] if medium.end is not None else []
    return [*places, *((mark, 0) for mark in after), *[text] * _AFTER]


def find_function(toy: ToyModel, name: str) -> Callable[..., Any] | None:
    """A method of the model, or of the model inside it."""
    inner = getattr(toy.model, "model", toy.model)
    return next((getattr(model, name) for model in (toy.model, inner) if hasattr(model, name)), None)


def parameters_of(toy: ToyModel, name: str) -> set[str]:
    """What a method takes, of the model and of the model inside it."""
    inner = getattr(toy.model, "model", toy.model)
    functions = [getattr(model, name) for model in (toy.model, inner) if hasattr(model, name)]
    return {name for function in functions for name in inspect.signature(function).parameters}


def feature_counts(toy: ToyModel, name: str, inputs: Mapping[str, Any], things: int) -> list[int]:
    """How many rows of features the model itself gives for each of ``things`` pictures, videos or sounds.

    ``name`` is that of its method, such as ``get_image_features``, which takes ``inputs``. ValueError when features
    do not tell the things apart.
    """
    function = find_function(toy, name)
    if function is None:
        raise ValueError(f"{type(toy.model).__name__} has no {name}")
    takes = parameters_of(toy, name)
    inputs = {key: value for key, value in inputs.items() if key in takes or "args" in takes}
    counts = list(_counts(function(**inputs)))
    if len(counts) == things:
        return counts
    if things > 1 and all(isinstance(value, torch.Tensor) and len(value) == things for value in inputs.values()):
        alone = [{name: value[i : i + 1] for name, value in inputs.items()} for i in range(things)]
        each = [sum(_counts(function(**arguments))) for arguments in alone]
        if sum(each) == sum(counts):
            return each
    if things == 1:
        return [sum(counts)]
    raise ValueError(f"{name} gives {sum(counts)} rows, and nothing says to which of the {things} they belong")


def _counts(features: Any) -> Iterator[int]:
    if hasattr(features, "pooler_output"):
        pooled = features.pooler_output
        features = _of_layers(features) if pooled is None else pooled
    if isinstance(features, (list, tuple)):
        for feature in features:
            yield sum(_counts(feature)) if isinstance(feature, (list, tuple)) else feature.shape[:-1].numel()
    elif features.dim() == 2:
        yield features.shape[0]
    else:
        yield from [features.shape[1:-1].numel()] * features.shape[0]


def _of_layers(output: Any) -> Any:
    """Features that are not pooled: those for one layer of text where several have their own, equally many."""
    if output.last_hidden_state is not None:
        return output.last_hidden_state
    (_, features), *_ = output.deepstack_features
    return features
