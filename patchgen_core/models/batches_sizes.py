"""Batches whose sizes nothing is made for: long rows, one token, rows of padding alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from patchgen_core.models.batches import ToyModel, WantedBatches
from patchgen_core.models.batches_text import random_ids, text_inputs, vocabulary

UNEVEN, ONE_TOKEN = "uneven rows", "one token"
_LENGTH, _REPEATED = 11, 8
_UNEVEN = "a row that is nearly all one token, one of padding alone, and a padded one"
_SHARE = 3 / 4
"""Of a long row, which is one token again and again."""


@dataclass(frozen=True)
class SizedBatches:
    """Wants batches of these sizes; equal ones are the same request.

    Attributes:
        has_rows: whether *uneven rows* are wanted: one in which a token is repeated, so that routers send most tokens
            to the same experts and none to others, one of padding alone, and a padded one; and *one token* in one row.
        length: of a row, in tokens; 0 for none.
        is_uneven: whether most tokens of that row are the same.
    """

    has_rows: bool = False
    length: int = 0
    is_uneven: bool = False

    def __call__(self, toy: ToyModel) -> Iterator[WantedBatches]:
        """The batches that a model of text may take."""
        if vocabulary(toy) is None or "input_ids" not in toy.takes:
            return
        if self.has_rows:
            yield WantedBatches(UNEVEN, (partial(_uneven_rows, toy),), about=_UNEVEN)
            yield WantedBatches(ONE_TOKEN, (partial(_one_token, toy),), about="one token")
        if self.length:
            form = partial(_long_row, toy, self.length, self.is_uneven)
            yield WantedBatches(f"{self.length} tokens", (form,))


def _uneven_rows(toy: ToyModel) -> Mapping[str, Any]:
    ids = random_ids(toy, 3, _LENGTH, seed=7)
    ids[0, :_REPEATED] = ids[0, 0]
    mask = torch.ones_like(ids)
    mask[1] = mask[2, -4:] = 0
    return text_inputs(toy, ids, mask)


def _one_token(toy: ToyModel) -> Mapping[str, Any]:
    """Without labels: no token comes after it."""
    inputs = text_inputs(toy, random_ids(toy, 1, 1, seed=8), None)
    return {name: value for name, value in inputs.items() if name != "labels"}


def _long_row(toy: ToyModel, length: int, is_uneven: bool) -> Mapping[str, Any]:
    ids = random_ids(toy, 1, length, seed=9)
    if is_uneven:
        ids[:, : int(length * _SHARE)] = ids[0, 0]
    return text_inputs(toy, ids, None)
