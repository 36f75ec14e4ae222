"""Is a difference one of chance? What eager is off is measured of one draw of parameters, a sample; and some of
upstream's models draw random numbers that no seed fixes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from patchgen_core.checks.parity.draws import OTHER_SEEDS
from patchgen_core.checks.parity.failures import Failure
from patchgen_core.errors import PatchgenError
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.model_run import Run, run_model
from patchgen_core.models.references import Reference
from patchgen_core.models.run_comparison import Difference, compare_runs
from patchgen_core.models.toy_models import load_state

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_MOST = 8.0
"""How many times what is allowed a difference may be that comes of the draw of parameters."""
_TIMES_ITS_OWN = 8.0
"""How many times what upstream is off itself the patched model may be off a model that does not repeat itself."""


def may_be_chance(failure: Failure) -> bool:
    """Whether another draw of parameters can tell more: where rounding is allowed, and little more than that came."""
    return bool(failure.allowed.multiple) and failure.wrong[0].excess <= _MOST


def compare_another_draw(
    other: Reference,
    reference: Reference,
    model: PreTrainedModel,
    upstream_batch: ToyBatch,
    batch: ToyBatch,
    failure: Failure,
) -> list[Difference]:
    """How far a patched model that is given the parameters of another draw, and then those of ``reference`` again, is
    off upstream's on a batch, which may hold more than upstream's; nothing where upstream's fails."""
    dtype = getattr(torch, failure.dtype)
    try:
        eager, truth = other.run(upstream_batch, dtype), other.run_exactly(upstream_batch, dtype)
    except PatchgenError:
        return []
    load_state(model, other.state)
    try:
        patched = run_model(model, batch, logits_alone=not failure.patched.left_out, like=eager)
    finally:
        load_state(model, reference.state)
    return compare_runs(patched, eager, truth, failure.allowed.multiple)


def draw_again(failure: Failure, draw: Callable[[int], list[Difference]]) -> tuple[float, ...]:
    """How many times what is allowed a difference is with other parameters, at most, each seed's; a second one where
    the first does not show it is not asked for, nor any where :func:`may_be_chance` says no.

    Args:
        draw: compares with the parameters of a seed.
    """
    excesses: list[float] = []
    for seed in OTHER_SEEDS if may_be_chance(failure) else ():
        differences = draw(seed)
        if differences:
            excesses.append(max(difference.excess for difference in differences))
        if not differences or excesses[0] <= 1:
            break
    return tuple(excesses)


def is_chance(failure: Failure) -> bool:
    """Whether a difference is gone with other parameters."""
    return bool(failure.draws) and failure.draws[0] <= 1


def repeats_itself(failure: Failure, again: Run) -> bool:
    """Whether a second run of upstream's model on a failure's batch is nearer to the first one than the patched
    model's run is, by more than chance explains."""
    own = _largest(again, failure.eager)
    return not own or _largest(failure.patched, failure.eager) > _TIMES_ITS_OWN * own


def _largest(run: Run, eager: Run) -> float:
    return max(difference.relative for difference in compare_runs(run, eager, None, 0.0))


def describe_chance(failure: Failure) -> str:
    """A note on a difference that another draw of parameters does not show."""
    worst = failure.wrong[0]
    return (
        f"{failure.title}: {worst.name} is {worst.excess:.1f} x the allowed error with one draw of parameters, and"
        " within it with another: counted as rounding"
    )


def measure_error(failure: Failure, reference: Reference, batch: ToyBatch) -> float:
    """How many times the error of eager a failure is off; infinite where that cannot be told."""
    try:
        truth = reference.run_exactly(batch, getattr(torch, failure.dtype))
    except PatchgenError:
        return float("inf")
    return max(difference.excess for difference in compare_runs(failure.patched, failure.eager, truth, 1.0))
