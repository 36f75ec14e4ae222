"""What is told of a batch of parity; imports no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BatchLine:
    """A batch that a head is run on.

    Attributes:
        about: what it is, in words; empty where its inputs say enough.
        inputs: what it passes, by name and shape.
        reason: why it runs.
        dtypes: those that it runs in.
        refused: why upstream's model does not take it; empty for a batch that runs.
    """

    head: str
    batch: str
    about: str
    inputs: str
    reason: str
    dtypes: tuple[str, ...]
    refused: str = ""
