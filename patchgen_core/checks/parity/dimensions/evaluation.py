"""The dimension ``evaluation``: every batch once more in evaluation mode, without gradients."""

from __future__ import annotations

from collections.abc import Iterator

from patchgen_core.checks.parity.dimensions.batch_choice import choose_batch
from patchgen_core.checks.parity.dimensions.dimension import Dimension, Subject
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.modes import EVALUATION
from patchgen_core.models.modes_generation import SOME_LOGITS


def _find_reason(subject: Subject) -> str:
    return "models are evaluated between steps"


def _make_batches(subject: Subject) -> Iterator[ToyBatch]:
    for batch in subject.batches:
        yield batch.in_mode(EVALUATION)
    takes_places = "logits_to_keep" in subject.names & subject.toy.takes and not subject.has_kernels
    if takes_places and (smallest := choose_batch(subject)):
        yield smallest.in_mode(SOME_LOGITS)


DIMENSION = Dimension("evaluation", _find_reason, _make_batches)
