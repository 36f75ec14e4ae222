"""What a rank does with a request."""

from __future__ import annotations

import functools
import importlib
import pickle
import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from patchgen_core.checks.imports.module_text import give_text
from patchgen_core.checks.ranks.groups import RankRequest
from patchgen_core.models.environment import use_loopback
from patchgen_core.models.model_setup import ModelSetup
from patchgen_core.models.process_state import preserve_process_state
from patchgen_core.models.project_setup import run_setups
from patchgen_core.workers.rank_loop import Rank

_TIMEOUT = timedelta(hours=1)  # who asks gives up before


def answer(rank: Rank, request: RankRequest) -> Any:
    """What the function of a request makes of its task."""
    setup = _begin(rank, request.setups)
    for module, path, text in request.texts:
        if module not in sys.modules:
            give_text(module, path, text)
    module, _, name = request.function.partition(":")
    with preserve_process_state():
        return getattr(importlib.import_module(module), name)(pickle.loads(request.task), setup)


@functools.cache
def _begin(rank: Rank, setups: tuple[str, ...]) -> ModelSetup:
    """Become a rank of a gloo group, once; gives what the set-ups declare."""
    torch.set_num_threads(1)
    torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
    use_loopback()
    setup = run_setups(setups)
    if dist.is_initialized():  # by a set-up, for the one process that runs models
        dist.destroy_process_group()
    store = f"file://{rank.folder / 'store'}"
    dist.init_process_group("gloo", init_method=store, rank=rank.number, world_size=rank.size, timeout=_TIMEOUT)
    return setup
