"""The dimension ``compilation``: a model that torch.compile traces whole stays one graph when it is patched."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from patchgen_core.checks.parity.dimensions.batch_choice import choose_batch
from patchgen_core.checks.parity.dimensions.dimension import Dimension, Subject
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.modes_compiled import COMPILED

_READS_VALUES = {"item", "tolist", "numpy", "cpu", "equal", "allclose", "print", "synchronize"}
_READS_VALUES |= {"any", "all", "max", "min", "sum", "isnan", "isinf", "isfinite", "range"}
_HAS_UNKNOWN_SHAPE = {"nonzero", "unique", "unique_consecutive", "argwhere", "masked_select", "bincount", "split"}
_IS_NOT_TRACED = {"Function", "disable", "data_ptr", "stride", "time", "random", "Event", "Stream"}
_BREAKS = frozenset(_READS_VALUES | _HAS_UNKNOWN_SHAPE | _IS_NOT_TRACED)

_OF_EXPERTS = ("_apply_gate", "is_transposed")
"""What transformers gives each class of such experts."""


def _find_reason(subject: Subject) -> str:
    """Kernels are left alone: the interpreter that runs them here is not what a GPU compiles."""
    names = sorted(_BREAKS & subject.names) if subject.is_main and not subject.has_kernels else ()
    if any(map(_is_loop_of_experts, subject.toy.model.modules())):
        return ""
    return f"the patches are about '{names[0]}'" if names else ""


def _make_batches(subject: Subject) -> Iterator[ToyBatch]:
    if not subject.has_kernels and (batch := choose_batch(subject)):
        yield batch.in_mode(COMPILED)


def _is_loop_of_experts(part: nn.Module) -> bool:
    """Whether a module runs the experts that tokens were sent to one after another, as eager ones do that transformers
    has other implementations of: upstream's own model is never one graph then."""
    return all(hasattr(part, name) for name in _OF_EXPERTS)


DIMENSION = Dimension("compilation", _find_reason, _make_batches)
