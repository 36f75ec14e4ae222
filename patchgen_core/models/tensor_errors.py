"""How far one tensor is off another, in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ErrorOfEager:
    """What one tensor of upstream's is off.

    Attributes:
        truth: what it is measured against.
        absolute: largest difference of an element.
        relative: Euclidean norm of the difference over that of the truth.
        floor: the relative error that its dtype has in any case.
    """

    truth: Array
    absolute: float
    relative: float
    floor: float


def measure_eager(value: torch.Tensor, reference: torch.Tensor | None) -> ErrorOfEager:
    """How far a tensor is off that of a reference of its shape; nothing without one."""
    own = to_array(value)
    truth = own if reference is None or reference.shape != value.shape else to_array(reference)
    absolute, relative = _compare(own, truth)
    if not math.isfinite(relative):  # what eager itself gets wrong without bounds bounds nothing
        truth, absolute, relative = own, 0.0, 0.0
    return ErrorOfEager(truth, absolute, relative, torch.finfo(value.dtype).eps if _size(truth) else 0.0)


def compare_tensors(value: torch.Tensor, truth: Array) -> tuple[float, float]:
    """Largest difference, where equal infinities do not differ, and its norm over that of a truth that is not zero."""
    return _compare(to_array(value), truth)


def to_array(value: torch.Tensor) -> Array:
    """In float64, with infinities for the largest numbers of a dtype, which stand for those in masks."""
    most, wide = torch.finfo(value.dtype).max / 2, value.double().numpy()
    is_large = np.abs(wide) > most
    return np.where(is_large, np.copysign(np.inf, wide), wide) if is_large.any() else wide


def _compare(value: Array, truth: Array) -> tuple[float, float]:
    same = (value == truth) | (np.isnan(value) & np.isnan(truth))
    if same.all():
        return 0.0, 0.0
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, value - truth)
    if not np.isfinite(difference).all():
        return float("inf"), float("inf")
    return float(np.abs(difference).max()), _norm(difference) / (_size(truth) or 1.0)


def _size(truth: Array) -> float:
    """The norm of what is finite."""
    return _norm(np.where(np.isfinite(truth), truth, 0.0))


def _norm(value: Array) -> float:
    return math.sqrt(np.square(value).sum())  # without BLAS, whose threads cost more than they save
