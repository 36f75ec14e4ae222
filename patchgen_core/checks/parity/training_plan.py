"""Which batches of a training step a head is run on, and in which dtypes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from patchgen_core.checks.parity.request import ParityRequest
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.model_setup import PATCHED, THROUGH_SLOTS
from patchgen_core.ops.kernel_spec import EAGER
from patchgen_core.project.parity_settings import THOROUGH

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_MOST_SIMPLER = 2


def plan_training(
    request: ParityRequest,
    batches: Sequence[ToyBatch],
    is_main: bool,
    has_new_code: bool,
    is_short: Callable[[], bool],
) -> Iterator[tuple[str, ToyBatch]]:
    """What to run a head on, the first dtype first; in the others no batch that another one covers.

    Args:
        is_main: whether it is the head that all that is in the module runs in, as far as one head does.
        has_new_code: whether it has patched code that no head before has. One that has not is run on its smallest
            batch, with upstream's lines on the most general one too, in the first dtype.
        is_short: whether kernels alone are looked at, whose code is the same on most batches, or they take long; asked
            before each batch, as the first one shows the latter, which for kernels is the shortest one.
    """
    names, implementation = {batch.name for batch in batches}, request.implementation
    smallest, shortest = find_smallest(batches), find_shortest(batches)
    general = batches[0] if batches and implementation in (EAGER, PATCHED) else None
    if implementation not in (EAGER, PATCHED, THROUGH_SLOTS):
        batches = sorted(batches, key=lambda batch: batch is not shortest)
    for number, dtype in enumerate(request.dtypes):
        for batch in batches:
            if is_short() or (number and implementation == THROUGH_SLOTS):
                is_seen = batch.seen_in in names and implementation != PATCHED
                is_needed = batch is shortest if number else batch.covered_by not in names and not is_seen
                is_wanted = is_needed if is_main else has_new_code and batch is shortest and not number
            else:
                is_repeated = number and batch.covered_by in names and request.level != THOROUGH
                is_wanted = (is_main or has_new_code) and not is_repeated
                is_wanted = is_wanted or (not number and (batch is smallest or batch is general))
            if is_wanted:
                yield dtype, batch


def find_smallest(batches: Sequence[ToyBatch]) -> ToyBatch | None:
    """The batch of the smallest inputs, one with labels where there is one."""
    labelled = [batch for batch in batches if "labels" in batch.inputs]
    return min(labelled or batches, key=lambda batch: batch.size, default=None)


def find_shortest(batches: Sequence[ToyBatch]) -> ToyBatch | None:
    """The batch of the fewest tokens, which tell how long kernels take; one with labels where there is one."""
    labelled = [batch for batch in batches if "labels" in batch.inputs]
    return min(labelled or batches, key=lambda batch: (batch.tokens, batch.size), default=None)


def find_simpler(batches: Sequence[ToyBatch], batch: ToyBatch) -> list[ToyBatch]:
    """The batches that show less than a batch, whose code runs on this one as well; those that show least first."""
    depths = {batch.name: 0}
    for _ in batches:
        for one in batches:
            above = [depths[name] for name in (one.covered_by, one.seen_in) if name in depths]
            if above and one.name not in depths:
                depths[one.name] = min(above) + 1
    has_labels = "labels" in batch.inputs
    simpler = [one for one in batches if depths.get(one.name) and ("labels" in one.inputs) == has_labels]
    return sorted(simpler, key=lambda one: -depths[one.name])[:_MOST_SIMPLER]


def list_classes(model: PreTrainedModel) -> set[str]:
    """The names of the classes of a model's modules, and of the bases of these."""
    return {base.__name__ for part in model.modules() for base in type(part).__mro__}
