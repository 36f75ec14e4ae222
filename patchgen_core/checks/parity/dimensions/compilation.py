"""The dimension ``compilation``: a model that torch.compile traces whole stays one graph when it is patched."""

from __future__ import annotations

from collections.abc import Iterator

from patchgen_core.checks.parity.dimensions.batch_choice import choose_batch
from patchgen_core.checks.parity.dimensions.dimension import Dimension, Subject
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.modes_compiled import COMPILED

_READS_VALUES = {"item", "tolist", "numpy", "cpu", "equal", "allclose", "print", "synchronize"}
_READS_VALUES |= {"any", "all", "max", "min", "sum", "isnan", "isinf", "isfinite", "range"}
_HAS_UNKNOWN_SHAPE = {"nonzero", "unique", "unique_consecutive", "argwhere", "masked_select", "bincount", "split"}
_IS_NOT_TRACED = {"Function", "disable", "data_ptr", "stride", "time", "random", "Event", "Stream"}
_BREAKS = frozenset(_READS_VALUES | _HAS_UNKNOWN_SHAPE | _IS_NOT_TRACED)


def _find_reason(subject: Subject) -> str:
    """Kernels are left alone: the interpreter that runs them here is not what a GPU compiles."""
    names = sorted(_BREAKS & subject.names) if subject.is_main and not subject.has_kernels else ()
    return f"the patches are about '{names[0]}'" if names else ""


def _make_batches(subject: Subject) -> Iterator[ToyBatch]:
    if not subject.has_kernels and (batch := choose_batch(subject)):
        yield batch.in_mode(COMPILED)


DIMENSION = Dimension("compilation", _find_reason, _make_batches)
