"""What is wrong with converted tensors, told in the words of how one gets there."""

from __future__ import annotations

from collections.abc import Mapping

import torch

_MOST = 3


def differences(expected: Mapping[str, torch.Tensor], actual: Mapping[str, torch.Tensor]) -> list[str]:
    """What is wrong with each tensor of ``actual``, worst first; equal means bit for bit, with the same dtype."""
    problems: list[tuple[float, str]] = []
    for name, tensor in expected.items():
        if name not in actual:
            problems.append((4.0, f"'{name}' is missing"))
        else:
            problems += _difference(name, tensor, actual[name])
    problems += [(3.0, f"'{name}' is left over") for name in actual if name not in expected]
    return [text for _, text in sorted(problems, key=lambda one: -one[0])]


def listed(texts: list[str]) -> str:
    """The first few of what is wrong, as one sentence."""
    more = f"; and {len(texts) - _MOST} more" if len(texts) > _MOST else ""
    return "; ".join(texts[:_MOST]) + more


def _difference(name: str, expected: torch.Tensor, actual: torch.Tensor) -> list[tuple[float, str]]:
    if actual.shape != expected.shape:
        swapped = actual.dim() >= 2 and _same(actual.transpose(-1, -2), expected)
        what = "is transposed" if swapped else "has another shape"
        return [(2.0, f"'{name}' {what}: {list(actual.shape)}, not {list(expected.shape)}")]
    if actual.dtype != expected.dtype:
        return [(2.0, f"'{name}' is {actual.dtype}, not {expected.dtype}")]
    if _same(actual, expected):
        return []
    wrong = (~((actual == expected) | (actual.isnan() & expected.isnan()))).double().mean().item()
    reason = _reason(expected, actual) or f"differs in {wrong:.0%} of its values"
    return [(wrong, f"'{name}' {reason}")]


def _reason(expected: torch.Tensor, actual: torch.Tensor) -> str:
    """How ``actual`` came about, when that can be recognised."""
    if actual.is_floating_point() and bool(actual.isnan().all()):
        return "was not written"
    if actual.dim() >= 2 and _same(actual.transpose(-1, -2), expected):
        return "is transposed"
    if actual.dim() != 3:
        return ""
    order = _permutation(expected, actual)
    if order is not None:
        return _permuted(order)
    if actual.shape[1] % 2:
        return ""
    first, second = actual.chunk(2, dim=1)
    swapped = torch.cat((second, first), dim=1)
    if _same(swapped, expected):
        return "has gate and up swapped"
    if _same(torch.cat((actual[:, 0::2], actual[:, 1::2]), dim=1), expected):
        return "has gate and up interleaved"
    order = _permutation(expected, swapped)
    return f"has gate and up swapped, and {_permuted(order)}" if order is not None else ""


def _permutation(expected: torch.Tensor, actual: torch.Tensor) -> list[int] | None:
    """For each place, which expert stands there, when all are there."""
    order = []
    for one in actual:
        match = next((expert for expert, other in enumerate(expected) if torch.equal(one, other)), None)
        if match is None:
            return None
        order.append(match)
    return order if sorted(order) == list(range(len(order))) else None


def _permuted(order: list[int]) -> str:
    place = next(place for place, expert in enumerate(order) if place != expert)
    text = f"has its experts in another order: expert {order[place]} is in place {place}"
    as_text = sorted(range(len(order)), key=str)
    return f"{text}; they were sorted as text, '10' before '2'" if order == as_text else text


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)
