"""Training state on disk by torch.distributed.checkpoint: every rank writes and reads its own parts."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.optim import Optimizer

from patchgen_core.checkpoint.first_rank import FirstRank
from patchgen_core.errors import Location, PatchgenError

_EXTRA = "extra.pt"
_FOLDER = re.compile(r"step-([0-9]+)")


def save_training_state(
    folder: str | os.PathLike[str],
    step: int,
    model: nn.Module,
    optimizer: Optimizer,
    extra: Mapping[str, Any] | None = None,
    keep: int = 2,
) -> Path:
    """Write model and optimizer into ``folder/step-<step>``, which is returned. Every rank calls it.

    The folder of the step appears when it is complete: an interrupted call leaves all earlier steps whole, and what
    it wrote is removed by the next one. Then all but the newest ``keep`` steps are removed.

    Args:
        extra: what else to keep, such as the ``state_dict()`` of a learning-rate schedule.

    Raises:
        PatchgenError: this step was saved before.
    """
    parent, first = Path(folder), FirstRank(dist.is_initialized())
    target, partial = parent / f"step-{step}", parent / f".step-{step}.partial"
    first.call(lambda: _prepare(parent, target))
    weights, state = get_state_dict(model, optimizer)
    save({"model": weights, "optimizer": state}, checkpoint_id=partial)
    first.call(lambda: torch.save(dict(extra or {}), partial / _EXTRA))
    first.call(lambda: _put_in_place(partial, target, keep))
    return target


def load_training_state(folder: str | os.PathLike[str], model: nn.Module, optimizer: Optimizer) -> tuple[int, Any]:
    """Load the newest complete step into model and optimizer; its number, and what was kept as ``extra``.

    Every rank calls it. The number of ranks and how they share the model may be others than when it was saved.
    Without any step, 0 and an empty mapping are returned, and nothing changes.
    """
    steps = FirstRank(dist.is_initialized()).call(lambda: _find_steps(Path(folder)))
    if not steps:
        return 0, {}
    step, path = steps[-1]
    weights, state = get_state_dict(model, optimizer)
    kept: dict[str, Any] = {"model": weights, "optimizer": state}
    load(kept, checkpoint_id=path)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state)
    return step, torch.load(path / _EXTRA, weights_only=True)


def _prepare(parent: Path, target: Path) -> None:
    if target.exists():
        raise PatchgenError("this step was saved before", Location(str(target)))
    for rest in parent.glob(".step-*.partial"):
        shutil.rmtree(rest)


def _put_in_place(partial: Path, target: Path, keep: int) -> None:
    partial.rename(target)
    for _, path in _find_steps(target.parent)[:-keep]:
        shutil.rmtree(path)


def _find_steps(folder: Path) -> list[tuple[int, Path]]:
    """The complete steps of a folder, the oldest first."""
    matches = [(match, path) for path in folder.glob("step-*") if (match := _FOLDER.fullmatch(path.name))]
    return sorted((int(match[1]), path) for match, path in matches)
