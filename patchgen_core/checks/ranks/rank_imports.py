"""What every rank imports."""

from __future__ import annotations

import importlib


def prepare_rank() -> None:
    """What a rank begins with."""
    for name in ("torch.distributed.tensor", "transformers.modeling_utils"):
        importlib.import_module(name)
