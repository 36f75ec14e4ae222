"""The dimension ``media``: pictures, videos and sounds in other orders, numbers and forms."""

from __future__ import annotations

from collections.abc import Iterator

from patchgen_core.checks.parity.dimensions.dimension import Dimension, Subject
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.batches_mixed import IN_A_ROW, mixed_batches
from patchgen_core.models.modes import EMBEDDED

_WORDS = ("image", "video", "audio", "vision", "visual", "pixel", "grid", "feature", "deepstack", "multimodal")


def _find_reason(subject: Subject) -> str:
    names = sorted(name for name in subject.names if name.isidentifier() and any(word in name for word in _WORDS))
    if (
        subject.has_kernels
        or not names
        or not any(batch.name in ("pictures", "video", "sounds") for batch in subject.batches)
    ):
        return ""
    return f"the patches are about {names[0]}" + (f" and {len(names) - 1} names like it" if names[1:] else "")


def _make_batches(subject: Subject) -> Iterator[ToyBatch]:
    for batch in subject.make(mixed_batches).batches:
        yield batch
        if batch.name == IN_A_ROW and "inputs_embeds" in subject.toy.takes:
            yield batch.in_mode(EMBEDDED)


DIMENSION = Dimension("media", _find_reason, _make_batches)
