"""The dimension ``npu``: code that calls operators of ``torch_npu``, for which a stand-in computes on a CPU."""

from __future__ import annotations

from collections.abc import Iterator

from patchgen_core.checks.parity.dimensions.configuration import find_changes
from patchgen_core.checks.parity.dimensions.dimension import Dimension, Subject
from patchgen_core.checks.parity.dimensions.dropout import find_noise_names
from patchgen_core.errors import list_some
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.config_values import ACTIVATION_FIELDS
from patchgen_core.models.modes import combine_modes
from patchgen_core.models.modes_noise import NOISY, find_noise
from patchgen_core.models.modes_npu import ON_NPU, is_installed
from patchgen_core.models.npu_operators import OPERATORS


def _find_reason(subject: Subject) -> str:
    operators = _find_operators(subject)
    if not operators or subject.has_kernels:
        return ""
    return f"the patches call {list_some(operators, 3)} of torch_npu, and a stand-in computes them here"


def _make_batches(subject: Subject) -> Iterator[ToyBatch]:
    """The most general batch, where the patches have something for an NPU; with dropout too and with another
    activation, where they have those."""
    if not _find_operators(subject):
        return
    for batch in subject.batches[:1]:
        yield batch.in_mode(ON_NPU)
        if find_noise_names(subject) and find_noise(subject.toy.config):
            yield batch.in_mode(combine_modes(ON_NPU, NOISY))
        for activation in find_changes(subject, ACTIVATION_FIELDS):
            yield batch.in_mode(ON_NPU).with_changes((activation,))


def _find_operators(subject: Subject) -> list[str]:
    """The operators that the patches call; none where one of them has no stand-in, or a real one is installed."""
    operators = sorted(name for name in subject.names if name.startswith("npu_"))
    return [] if set(operators) - OPERATORS.keys() or is_installed() else operators


DIMENSION = Dimension("npu", _find_reason, _make_batches)
