"""Forwards what builders of toy batches take and return."""

from patchgen_core.models.batches import ToyBatch, ToyModel

__all__ = ["ToyBatch", "ToyModel"]
