"""One number by which gradients or outputs are off: what a loss that is summed or divided otherwise shows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np
import torch

from patchgen_core.models.model_run import GRADIENT, Run
from patchgen_core.models.run_comparison import Difference
from patchgen_core.models.tensor_errors import to_array

IGNORED = -100
"""The label that no loss counts, in transformers and torch."""
LOSS = "loss"
_ROOM = {"float32": 1e-3, "float64": 1e-6}
_OTHER_ROOM = 3e-2
"""How far ratios of one number may lie apart in dtypes of fewer bits."""


def count_items(inputs: Mapping[str, Any]) -> dict[str, float]:
    """What a loss may be divided by, with its name: labels, tokens and rows of a batch, and what a trainer counts."""
    counts: dict[str, float] = {}
    labels, mask, ids = (inputs.get(name) for name in ("labels", "attention_mask", "input_ids"))
    if isinstance(labels, torch.Tensor) and not labels.is_floating_point() and labels.dim() > 1:
        is_shifted = isinstance(inputs.get("shift_labels"), torch.Tensor)
        kept = inputs["shift_labels"] if is_shifted else labels[..., 1:]
        counts["the number of labels that count"] = float((kept != IGNORED).sum())
        counts["the number of labels, with those that are ignored"] = float(kept.numel())
    if isinstance(inputs.get("num_items_in_batch"), (Number, torch.Tensor)):
        counts["num_items_in_batch"] = float(inputs["num_items_in_batch"])
    if isinstance(mask, torch.Tensor) and mask.dim() == 2:
        counts["the number of tokens that are no padding"] = float((mask != 0).sum())
    if isinstance(ids, torch.Tensor) and ids.dim() == 2:
        counts["the number of tokens"], counts["the number of rows"] = float(ids.numel()), float(ids.shape[0])
    return counts


def describe_factor(
    wrong: Sequence[Difference], patched: Run, eager: Run, dtype: str, counts: Mapping[str, float]
) -> str:
    """A sentence on the number by which all gradients that differ are off; empty where there is no such number."""
    room = _ROOM.get(dtype, _OTHER_ROOM)
    ratios = {
        difference.name: _ratio(patched.values.get(difference.name), eager.values.get(difference.name), room)
        for difference in wrong
    }
    gradients = {name: ratio for name, ratio in ratios.items() if name.startswith(GRADIENT)}
    if len(gradients) > 1 and (factor := _common(gradients.values(), room)) is not None:
        every = "every gradient" + ("" if len(gradients) == _gradients_in(eager) else " that differs")
        loss = ratios.get(LOSS)
        subject = f"The loss and {every} are" if loss and _is_near(loss, factor, room) else f"{every.capitalize()} is"
        return f"{subject} {_number(factor)} x upstream's{_describe_count(factor, counts, room)}."
    return ""


def describe_multiple(ours: torch.Tensor | None, theirs: torch.Tensor | None, dtype: str) -> str:
    """A sentence on a tensor that is some number of times another one; empty where it is not."""
    room = _ROOM.get(dtype, _OTHER_ROOM)
    ratio = _ratio(ours, theirs, room)
    return "" if ratio is None or _is_near(ratio, 1.0, room) else f"It is {_number(ratio)} x upstream's."


def _gradients_in(run: Run) -> int:
    return sum(name.startswith(GRADIENT) and value is not None for name, value in run.values.items())


def _ratio(ours: torch.Tensor | None, theirs: torch.Tensor | None, room: float) -> float | None:
    """The number that one tensor is times another; None where it is not."""
    if ours is None or theirs is None or ours.shape != theirs.shape:
        return None
    own, other = to_array(ours), to_array(theirs)
    size = float(np.square(other).sum())
    if not np.isfinite(own).all() or not np.isfinite(size) or not size:
        return None
    ratio = float((own * other).sum()) / size
    left = float(np.sqrt(np.square(own - ratio * other).sum()))
    return ratio if ratio and left <= room * abs(ratio) * size**0.5 else None


def _common(ratios: Collection[float | None], room: float) -> float | None:
    """The number that all ratios are, where it is not one."""
    numbers = [ratio for ratio in ratios if ratio is not None]
    if (
        len(numbers) < len(ratios)
        or _is_near(numbers[0], 1.0, room)
        or not all(_is_near(one, numbers[0], room) for one in numbers)
    ):
        return None
    return float(np.median(numbers))


def _is_near(one: float, other: float, room: float) -> bool:
    return abs(one - other) <= room * abs(other)


def _describe_count(factor: float, counts: Mapping[str, float], room: float) -> str:
    """What of the batch a factor is, as far as one can tell."""
    for name, count in counts.items():
        if count > 1 and _is_near(factor, count, room):
            return f": {name}, by which it is not divided"
        if count > 1 and _is_near(factor, 1 / count, room):
            return f": divided by {count:.0f} once more, which is {name}"
    for name, count in counts.items():
        for other, divisor in counts.items():
            if count != divisor and divisor and _is_near(factor, count / divisor, room):
                return f": divided by {other} ({divisor:.0f}), and not by {name} ({count:.0f})"
    return ""


def _number(factor: float) -> str:
    return f"{factor:.4g}"
