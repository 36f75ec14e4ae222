"""What dimensions are told of a head."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from patchgen_core.checks.parity.config_reads import find_read_names
from patchgen_core.checks.parity.dimensions.dimension import Subject
from patchgen_core.checks.parity.patched_names import find_patched_names, keeps_values
from patchgen_core.checks.parity.patched_numbers import find_patched_numbers
from patchgen_core.checks.parity.request import ParityRequest
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.model_setup import PATCHED
from patchgen_core.models.references import Reference
from patchgen_core.ops.kernel_spec import EAGER
from patchgen_core.project.parity_settings import THOROUGH


def make_subject(
    request: ParityRequest,
    reference: Reference,
    batches: Sequence[ToyBatch],
    *,
    is_main: bool,
    is_kernel_alone: bool = False,
) -> Subject:
    """A head that is about to be run on ``batches``, by what its patches say.

    Args:
        is_main: whether all patches are its own, and not those of its class alone.
        is_kernel_alone: whether another implementation runs all that this one does, but for kernels.
    """
    path = sys.modules[request.upstream].__file__ or ""
    names = find_patched_names(request, path)
    own = [patch for patch in request.patches if is_main or patch.target.partition(".")[0] == reference.head.name]
    own_request = replace(request, patches=tuple(own))
    targets = frozenset(patch.target for patch in own)
    own_names = names if is_main else find_patched_names(own_request, path)
    in_head = tuple(patch for patch in own if patch.target.partition(".")[0] == reference.head.name)
    head_names = find_patched_names(replace(request, patches=in_head), path) if is_main else own_names
    head_targets = frozenset(patch.target for patch in in_head)
    return Subject(
        reference.toy,
        tuple(batches),
        names,
        has_kernels=request.implementation not in (EAGER, PATCHED),
        make=reference.make,
        targets=targets,
        is_main=is_main,
        is_kernel_alone=is_kernel_alone,
        is_thorough=request.level == THOROUGH,
        read=find_read_names(own_names, targets, path),
        own_names=own_names,
        read_in_head=find_read_names(head_names, head_targets, path) if "labels" in head_names else frozenset(),
        keeps_values=keeps_values(own_request),
        numbers=find_patched_numbers(own_request, path),
    )
