"""The dimension ``evaluation``: every batch once more in evaluation mode, without gradients."""

from __future__ import annotations

from collections.abc import Iterator

from patchgen_core.checks.parity.dimensions.dimension import Dimension, Subject
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.modes import EVALUATION


def _find_reason(subject: Subject) -> str:
    return "models are evaluated between steps"


def _make_batches(subject: Subject) -> Iterator[ToyBatch]:
    for batch in subject.batches:
        yield batch.in_mode(EVALUATION)


DIMENSION = Dimension("evaluation", _find_reason, _make_batches)
