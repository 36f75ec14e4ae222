"""All dimensions, and what they have a head run on."""

from __future__ import annotations

from collections.abc import Iterator

from patchgen_core.checks.parity.dimensions import (
    attention,
    compilation,
    configuration,
    dropout,
    evaluation,
    generation,
    media,
    npu,
    ranks,
    sizes,
    training_tools,
)
from patchgen_core.checks.parity.dimensions.dimension import Dimension, Subject
from patchgen_core.models.batches import ToyBatch
from patchgen_core.project.parity_settings import QUICK, THOROUGH

DIMENSIONS: tuple[Dimension, ...] = (
    evaluation.DIMENSION,
    media.DIMENSION,
    ranks.DIMENSION,
    attention.DIMENSION,
    npu.DIMENSION,
    generation.DIMENSION,
    dropout.DIMENSION,
    training_tools.DIMENSION,
    compilation.DIMENSION,
    configuration.DIMENSION,
    sizes.DIMENSION,
)


def vary(subject: Subject, level: str, is_interpreted: bool) -> Iterator[tuple[str, tuple[ToyBatch, ...]]]:
    """What is said of each dimension that may matter, and its batches.

    Args:
        level: one of the settings of a project.
        is_interpreted: whether patches call kernels themselves, which Triton interprets.
    """
    for dimension in DIMENSIONS if level != QUICK else ():
        reason = dimension.find_reason(subject) or (f"the level is '{level}'" if level == THOROUGH else "")
        if reason and is_interpreted and not dimension.is_for_interpreted:
            yield f"{dimension.name} is not varied where kernels that patches call are interpreted", ()
        elif reason:
            yield f"{dimension.name} is varied, because {reason}", tuple(dimension.make_batches(subject))
