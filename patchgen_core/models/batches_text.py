"""Batches of text: rows, padded ones, and several sequences packed into one row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from patchgen_core.models.batches import Form, ToyModel, WantedBatches
from patchgen_core.models.random_values import random_floats
from patchgen_core.models.toy_sizes import FIRST_ORDINARY_TOKEN

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_LENGTH = 9
_PACKED = (4, 5)
_PROMPT = 3
_IGNORED = -100
_PADDED = "a row padded on the left above one padded on the right"
_ROWS = "rows of one length"
_IN_ONE_ROW = "two sequences packed into one row, told apart by their position ids"


def text_batches(toy: ToyModel) -> Iterator[WantedBatches]:
    """A row padded on the left above one padded on the right; rows of one length; two sequences in one row."""
    if vocabulary(toy) is None or "input_ids" not in toy.takes:
        return
    ids = random_ids(toy, 2, _LENGTH)
    mask = torch.ones_like(ids)
    padded = mask.clone()
    padded[0, :2] = padded[1, -3:] = 0
    yield WantedBatches("padded", tuple(_text_forms(toy, ids, padded)), seen_in="pictures", about=_PADDED)
    codes = (partial(_codes, toy),) if getattr(toy.config, "num_codebooks", 0) else ()
    yield WantedBatches("rows", (*_text_forms(toy, ids, mask), *codes), covered_by="padded", about=_ROWS)
    if "position_ids" in toy.takes and toy.kind != "sequence_classification" and not toy.config.is_encoder_decoder:
        forms = tuple(_packed_forms(toy))
        yield WantedBatches("packed", forms, separate=_PACKED[0], covered_by="trainer", about=_IN_ONE_ROW)


def random_ids(toy: ToyModel, rows: int, length: int, seed: int = 0) -> torch.Tensor:
    """Token ids (rows, length), int64, none of which is a special one; ValueError when the model has no others."""
    generator = torch.Generator().manual_seed(seed)
    size = vocabulary(toy) or 0
    special = set(_special_tokens(toy.config))
    tokens = [token for token in range(min(FIRST_ORDINARY_TOKEN, size // 2), size) if token not in special]
    if not tokens:
        raise ValueError(f"{type(toy.config).__name__} has no tokens beside special ones")
    return torch.tensor(tokens)[torch.randint(0, len(tokens), (rows, length), generator=generator)]


def _special_tokens(config: PreTrainedConfig) -> Iterator[int]:
    """The ids that a configuration and its parts say of, such as ``image_token_id`` and ``eos_token_id``."""
    from transformers import PreTrainedConfig

    for name, value in vars(config).items():
        if isinstance(value, PreTrainedConfig):
            yield from _special_tokens(value)
        elif name.endswith(("_token_id", "_token_ids", "_token_index")):
            yield from (token for token in (value if isinstance(value, list) else [value]) if isinstance(token, int))


def vocabulary(toy: ToyModel) -> int | None:
    """How many tokens the model knows; None where it knows of none."""
    return getattr(toy.config.get_text_config(decoder=True), "vocab_size", None)


def labels_for(toy: ToyModel, ids: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor | None:
    """Labels (rows, length) of the kind that a head takes; None for a base model.

    What the mask leaves out has no label, and neither have a language model's first tokens after it, which are a
    prompt.
    """
    generator = torch.Generator().manual_seed(1)
    classes = toy.config.num_labels or 1
    if toy.kind == "base":
        return None
    if toy.kind == "sequence_classification":
        return torch.randint(0, classes, ids.shape[:1], generator=generator)
    if toy.kind == "token_classification":
        labels = torch.randint(0, classes, ids.shape, generator=generator)
    else:
        read = torch.arange(1, ids.shape[1] + 1)[None] if mask is None else mask.cumsum(1)
        labels = ids.masked_fill(read <= _PROMPT, _IGNORED)
    return labels if mask is None else labels.masked_fill(mask == 0, _IGNORED)


def text_inputs(
    toy: ToyModel, ids: torch.Tensor, mask: torch.Tensor | None, unlabelled: torch.Tensor | None = None
) -> dict[str, Any]:
    """Token ids with what goes with them: padding, the mask, labels, no cache, the routers' logits.

    A model without a mask is to see all. ``unlabelled`` is True where a token has no label, such as at placeholders.
    """
    inputs: dict[str, Any] = {"input_ids": ids}
    labels = labels_for(toy, ids, mask)
    if mask is not None:
        inputs = {"input_ids": ids.masked_fill(mask == 0, padding_token(toy)), "attention_mask": mask}
    if labels is not None:
        if unlabelled is not None and labels.shape == ids.shape:
            labels = labels.masked_fill(unlabelled, _IGNORED)
        inputs["labels"] = labels
    return inputs | switches(toy)


def switches(toy: ToyModel) -> dict[str, Any]:
    """No cache, and the routers' logits, so that what balances experts is part of the loss."""
    inputs = {"use_cache": False, "output_router_logits": True}
    parts = (toy.config, toy.config.get_text_config(decoder=True))
    passed_on = {name for name in inputs if "kwargs" in toy.takes and any(hasattr(part, name) for part in parts)}
    return {name: value for name, value in inputs.items() if name in toy.takes | passed_on}


def padding_token(toy: ToyModel) -> int:
    """The id of the padding token; 0 where the model has none."""
    token = getattr(toy.config.get_text_config(decoder=True), "pad_token_id", None)
    return int(token) if token is not None and token >= 0 else 0


def _text_forms(toy: ToyModel, ids: torch.Tensor, mask: torch.Tensor) -> Iterator[Form]:
    yield from _with_companions(toy, ids, partial(text_inputs, toy, ids, mask))
    if toy.kind == "sequence_classification":  # without a padding token there is one row only
        yield partial(text_inputs, toy, ids[1:], mask[1:])


def _with_companions(toy: ToyModel, ids: torch.Tensor, plain: Form) -> Iterator[Form]:
    """A form, alone and beside what some models want with text."""
    yield plain
    more = {
        "mm_token_type_ids": torch.zeros_like(ids),
        "token_type_ids": torch.zeros_like(ids),
        "bbox": random_floats(*ids.shape, 4).abs() / 2,
    }
    for name in [name for name in more if name in toy.takes]:
        yield partial(_join, plain, {name: more[name]})


def _join(plain: Form, more: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**plain(), **more}


def _codes(toy: ToyModel) -> Mapping[str, Any]:
    return {"input_ids": random_ids(toy, 2 * toy.config.num_codebooks, _LENGTH)} | switches(toy)


def _packed_forms(toy: ToyModel) -> Iterator[Form]:
    """Position ids that restart: plain ones, and where a token has several (in time, by height, by width) all of them.

    With these go the plain ones, in front, by which upstream tells the sequences apart.
    """
    ids = random_ids(toy, 1, sum(_PACKED))
    positions = torch.cat([torch.arange(length) for length in _PACKED])[None]
    for position_ids in (*([positions.expand(4, 1, -1)] if has_axes(toy) else []), positions):
        yield from _with_companions(toy, ids, partial(_packed, toy, ids, position_ids))


def _packed(toy: ToyModel, ids: torch.Tensor, positions: torch.Tensor) -> Mapping[str, Any]:
    inputs = text_inputs(toy, ids, None)
    if toy.kind == "causal_lm" or toy.kind == "conditional_generation":
        inputs["labels"][:, _PACKED[0]] = _IGNORED  # what would follow the sequence before
    return inputs | {"position_ids": positions.contiguous()}


def two_sequences(toy: ToyModel) -> Iterator[WantedBatches]:
    """Two sequences in one row without labels; a model may let the second one see the first."""
    if vocabulary(toy) is not None and {"input_ids", "position_ids", "kwargs"} <= toy.takes:
        forms = tuple(partial(_without_labels, form) for form in _packed_forms(toy))
        yield WantedBatches("two sequences", forms, about=f"{_IN_ONE_ROW}, without labels")


def _without_labels(form: Form) -> Mapping[str, Any]:
    return {name: value for name, value in form().items() if name in ("input_ids", "position_ids", "use_cache")}


def lengths_of(ends: torch.Tensor) -> Mapping[str, Any]:
    """What a collator gives of the sequences in a row, which end at these tokens; 0 is the first."""
    ends, longest = ends.to(torch.int32), int(ends.diff().max())
    return {"cu_seq_lens_q": ends, "cu_seq_lens_k": ends, "max_length_q": longest, "max_length_k": longest}


def has_axes(toy: ToyModel) -> bool:
    """Whether a token has several positions: in time, by height and by width."""
    rope = getattr(toy.config.get_text_config(decoder=True), "rope_parameters", None) or {}
    return "mrope_section" in rope or hasattr(getattr(toy.model, "model", toy.model), "get_rope_index")
