"""Toy batches tried on upstream's model: does it run them, and are they what they are meant to be?"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from patchgen_core.models.batches import ToyBatch, ToyModel
from patchgen_core.models.batches_text import random_ids
from patchgen_core.models.random_values import reseed
from patchgen_core.models.toy_models import forget_positions

_LONGEST = 240
_CLOSE = 1e-3
_LOSS_OPTIONS = ("shift_labels", "num_items_in_batch", "ignore_index")


def why_refused(toy: ToyModel, inputs: Mapping[str, Any]) -> str:
    """Why the model does not run a batch; empty when it does."""
    try:
        output = _run(toy, inputs)
    except Exception as error:
        return describe_error(error)
    name = next((name for name in ("loss", "logits", "last_hidden_state") if output.get(name) is not None), None)
    if name is not None and not torch.isfinite(output[name]).all():
        return f"its {name} is not finite"
    return ""


def _run(toy: ToyModel, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    reseed("cpu")
    forget_positions(toy.model)
    token_batch = ToyBatch("", inputs).to(torch.float32, "cpu")
    with torch.no_grad():
        output = toy.model(**token_batch)
    return output if isinstance(output, Mapping) else {}


def why_mixed(toy: ToyModel, inputs: Mapping[str, Any], first: int) -> str:
    """What is wrong with two sequences in one row, of which one is ``first`` tokens long; empty when nothing is."""
    if not first:
        return ""
    bare = {name: value for name, value in inputs.items() if name != "labels"}
    ids = bare["input_ids"].clone()
    ids[:, :first] = random_ids(toy, 1, first, seed=2)
    one, other = (_tokens(_run(toy, bare | {"input_ids": tokens})) for tokens in (bare["input_ids"], ids))
    if one is None or other is None or one.shape[:2] != ids.shape:
        return "it has no output for each token, so nothing shows whether it keeps packed sequences apart"
    if torch.allclose(one[:, first:], other[:, first:], rtol=_CLOSE, atol=_CLOSE):
        return ""
    return "transformers does not keep packed sequences apart: the second sees the first"


def why_unseen(toy: ToyModel, inputs: Mapping[str, Any], media: Sequence[str]) -> str:
    """Which of the media the outputs do not depend on, in words; empty when they do on all."""
    bare = {name: value for name, value in inputs.items() if name != "labels" or toy.config.is_encoder_decoder}
    for name in media:
        if isinstance(value := bare.get(name), torch.Tensor):
            one, other = (_tokens(_run(toy, candidate)) for candidate in (bare, bare | {name: -value}))
            if one is None or other is None or torch.equal(one, other):
                return f"the model ignores {name}"
    return ""


def unheeded_options(toy: ToyModel, inputs: Mapping[str, Any]) -> list[str]:
    """The options of the loss among the inputs that change nothing in the model's loss."""
    options = [name for name in _LOSS_OPTIONS if name in inputs]
    loss = _run(toy, inputs).get("loss") if options and "labels" in inputs else None
    if loss is None:
        return []
    others = {name: {key: value for key, value in inputs.items() if key != name} for name in options}
    return [name for name, other in others.items() if torch.equal(loss, _run(toy, other)["loss"])]


def _tokens(output: Mapping[str, Any]) -> torch.Tensor | None:
    value = output.get("logits")
    return value if value is not None else output.get("last_hidden_state")


def describe_error(error: Exception) -> str:
    """An error in a line, with the place that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename.replace(chr(92), '/').rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:_LONGEST]}{'...' if len(text) > _LONGEST else ''}{place}"
