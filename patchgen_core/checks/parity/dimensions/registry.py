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


def vary(subject: Subject, level: str) -> Iterator[tuple[Dimension, str, tuple[ToyBatch, ...]]]:
    """The dimensions that a level has varied, why, and the batches.

    Args:
        level: one of the settings of a project.
    """
    for dimension in DIMENSIONS if level != QUICK else ():
        reason = dimension.find_reason(subject) or (f"the level is '{level}'" if level == THOROUGH else "")
        if reason:
            yield dimension, reason, tuple(dimension.make_batches(subject))
