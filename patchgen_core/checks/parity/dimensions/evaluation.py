"""The dimension ``evaluation``: batches once more in evaluation mode, without gradients."""

from __future__ import annotations

from collections.abc import Iterator

from patchgen_core.checks.parity.dimensions.batch_choice import choose_batch
from patchgen_core.checks.parity.dimensions.dimension import Dimension, Subject
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.modes import EVALUATION
from patchgen_core.models.modes_generation import SOME_LOGITS

_WORDS = frozenset(
    {"training", "train", "eval", "requires_grad", "is_grad_enabled", "no_grad", "enable_grad", "inference_mode"}
)


def _find_reason(subject: Subject) -> str:
    return "models are evaluated between steps"


def _make_batches(subject: Subject) -> Iterator[ToyBatch]:
    smallest = choose_batch(subject)
    for batch in subject.batches if _is_every_wanted(subject) else _few(subject, smallest):
        yield batch.in_mode(EVALUATION)
    takes_places = "logits_to_keep" in subject.names & subject.toy.takes and not subject.has_kernels
    if takes_places and smallest:
        yield smallest.in_mode(SOME_LOGITS)


def _is_every_wanted(subject: Subject) -> bool:
    """Whether each batch may show more: upstream's lines run on the main head, or patches ask for the mode."""
    is_whole = subject.is_main and not subject.has_kernels
    return subject.is_thorough or is_whole or bool(_WORDS & subject.own_names and not subject.is_kernel_alone)


def _few(subject: Subject, smallest: ToyBatch | None) -> list[ToyBatch]:
    """The most general batch and the smallest one; the smallest where kernels are looked at alone."""
    general = [] if subject.is_kernel_alone else list(subject.batches[:1])
    return general if smallest is None or any(smallest is one for one in general) else [*general, smallest]


DIMENSION = Dimension("evaluation", _find_reason, _make_batches)
