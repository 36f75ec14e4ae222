"""The dimension ``ranks``: batches with media as on a rank of a group, whose other ranks may have others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from patchgen_core.checks.parity.dimensions.dimension import Dimension, Subject
from patchgen_core.models.batches import ToyBatch

_WORD = "dummy"


def _find_reason(subject: Subject) -> str:
    names = sorted(name for name in subject.names if name.isidentifier() and _WORD in name.lower())
    return f"the patches have {names[0]}" if names and not subject.has_kernels else ""


def _make_batches(subject: Subject) -> Iterator[ToyBatch]:
    for batch in subject.batches:
        if batch.has_media and not batch.as_rank:
            yield replace(batch, name=f"{batch.name}, on a rank", as_rank=True, covered_by="", seen_in="")


DIMENSION = Dimension("ranks", _find_reason, _make_batches)
