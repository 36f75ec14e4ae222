"""Which base models the registry of modeling classes gives."""

from __future__ import annotations

from typing import Any

from patchgen_core.errors import PatchgenError
from patchgen_core.registry import MODELING_REGISTRY, resolve_model_class


def is_registered(base: type) -> bool:
    """Whether the registry of modeling classes gives a base model for its model type, on this machine or another.

    A folder that has one module for GPUs and one for NPUs gives the classes of what the machine has.
    """
    config_class: Any = getattr(base, "config_class", None)
    model_type = getattr(config_class, "model_type", "")
    if model_type not in MODELING_REGISTRY:
        return False
    try:
        model_class = resolve_model_class({"model_type": model_type, "architectures": [base.__name__]})
    except PatchgenError:  # registered for other devices, or other classes
        return False
    return model_class.__module__.rpartition(".")[0] == base.__module__.rpartition(".")[0]
