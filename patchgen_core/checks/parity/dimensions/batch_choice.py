"""The smallest batch that shows what patches do."""

from __future__ import annotations

import re

import torch

from patchgen_core.checks.parity.dimensions.dimension import Subject
from patchgen_core.models.batches import ToyBatch, ToyModel

_MEDIA = ("pixel_values", "pixel_values_videos", "input_features", "input_values")
_TOWER = re.compile(r"vis(ion|ual)|image|video|audio|tower")


def choose_batch(subject: Subject, *, is_padded: bool = False, is_for_towers: bool = False) -> ToyBatch | None:
    """The smallest batch with labels where there is one.

    Args:
        is_padded: whether it is to have padding, and so is of text alone. Others have none where they can: rows that
            attend to nothing have no right values.
        is_for_towers: whether it is to have media where a patch is of a class that only media reach.
    """
    batches = [batch for batch in subject.batches if not batch.as_rank]
    media, plain = list(filter(has_media, batches)), [batch for batch in batches if not has_media(batch)]
    if is_padded:
        candidates = list(filter(_has_padding, plain))
    else:
        candidates = (media if is_for_towers and _tower_targets(subject) else plain) or batches
    return min(candidates, key=lambda batch: (_lacks(batch), _has_padding(batch), batch.size), default=None)


def _lacks(batch: ToyBatch) -> int:
    return sum(name not in batch.inputs for name in ("labels", "input_ids"))


def _has_padding(batch: ToyBatch) -> bool:
    mask = batch.inputs.get("attention_mask")
    return isinstance(mask, torch.Tensor) and not bool(mask.all())


def has_media(batch: ToyBatch) -> bool:
    """Whether a batch has more than text."""
    return any(name in batch.inputs for name in _MEDIA)


def _tower_targets(subject: Subject) -> frozenset[str]:
    """The targets in classes of modules that stand in towers alone."""
    towers = find_tower_classes(subject.toy) - _classes(subject.toy, in_towers=False)
    return frozenset(target for target in subject.targets if target.partition(".")[0] in towers)


def find_tower_classes(toy: ToyModel) -> set[str]:
    """The classes of modules in towers."""
    return _classes(toy, in_towers=True)


def _classes(toy: ToyModel, *, in_towers: bool) -> set[str]:
    modules = toy.model.named_modules()
    return {type(part).__name__ for path, part in modules if bool(_TOWER.search(path)) == in_towers}
