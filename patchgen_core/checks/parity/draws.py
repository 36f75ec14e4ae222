"""How likely a difference is noise, by what it is with several draws of random parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from patchgen_core.syntax.forms import listed

OTHER_SEEDS = (1, 2, 3)
"""Of the draws beside the first; the nearest one tells whether a difference is there again."""
_FAR = 1000.0
"""How many times what is allowed is as good as anything beyond."""
_LEAST = 1e-4
"""The least probability that is told as a number."""


def estimate_chance(excesses: Sequence[float]) -> float:
    """The probability that four draws of what is right on average come out so far above what is allowed, or further.

    ``excesses`` are multiples of what is allowed. It is Student's distribution, with three degrees of freedom, of the
    mean of their logarithms.
    """
    logarithms = [math.log(min(max(excess, 1 / _FAR), _FAR)) for excess in excesses]
    mean = math.fsum(logarithms) / len(logarithms)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in logarithms) / (len(logarithms) - 1))
    if not deviation:
        return 0.0 if mean > 0 else 1.0
    t = mean / (deviation / math.sqrt(len(logarithms))) / math.sqrt(3)
    return max(0.0, 0.5 - (t / (1 + t * t) + math.atan(t)) / math.pi)


def describe_draws(excess: float, others: Sequence[float]) -> str:
    """A sentence about a difference with the first parameters and with others; empty where there were none."""
    if not others:
        return ""
    times = listed([f"{other:.1f}" for other in others])
    sentence = f"It is {excess:.1f} x what is allowed, and {times} x with other random parameters"
    if len(others) < len(OTHER_SEEDS):
        return f"{sentence}."
    chance = estimate_chance([excess, *others])
    told = f"{chance:.1g}" if chance >= _LEAST else f"under {_LEAST:.4f}"
    return f"{sentence}: the probability that this is noise is {told}."
