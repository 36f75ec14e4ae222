"""The dimension ``media``: pictures, videos and sounds in other orders, numbers and forms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgen_core.checks.parity.dimensions.dimension import Dimension, Subject
from patchgen_core.models.batches import MEDIA, ToyBatch
from patchgen_core.models.batches_mixed import IN_A_ROW, mixed_batches
from patchgen_core.models.modes import EMBEDDED
from patchgen_core.models.modes_collated import COLLATED, METADATA

_WORDS = ("image", "video", "audio", "vision", "visual", "pixel", "grid", "feature", "deepstack", "multimodal")


def _find_reason(subject: Subject) -> str:
    names = sorted(name for name in subject.names if name.isidentifier() and any(word in name for word in _WORDS))
    names += [METADATA] if _gives_metadata(subject) else []
    if (
        subject.has_kernels
        or not names
        or not any(batch.name in ("pictures", "video", "sounds") for batch in subject.batches)
    ):
        return ""
    return f"the patches are about {names[0]}" + (f" and {len(names) - 1} names like it" if names[1:] else "")


def _gives_metadata(subject: Subject) -> bool:
    return any(target.endswith(f".{METADATA}") for target in subject.targets)


def _make_batches(subject: Subject) -> Iterator[ToyBatch]:
    batches = subject.make(mixed_batches).batches
    for batch in batches:
        yield batch
        if batch.name == IN_A_ROW and "inputs_embeds" in subject.toy.takes:
            yield batch.in_mode(EMBEDDED)
    if _gives_metadata(subject):
        yield from (batch.in_mode(COLLATED) for batch in _choose_by_media((*batches, *subject.batches)))


def _choose_by_media(batches: Sequence[ToyBatch]) -> Iterator[ToyBatch]:
    """The batches with the most kinds of media, until all kinds are there."""
    covered: set[str] = set()
    for batch in sorted(batches, key=lambda batch: len(MEDIA & batch.inputs.keys()), reverse=True):
        kinds = MEDIA & batch.inputs.keys()
        if not batch.as_rank and not kinds <= covered:
            covered |= kinds
            yield batch


DIMENSION = Dimension("media", _find_reason, _make_batches)
