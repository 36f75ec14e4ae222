"""Upstream's base models in patched heads, and which base models the registry of modeling classes gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patchgen_core.checks.parity_codes import NOT_PATCHED
from patchgen_core.errors import Location, PatchgenError, Problem
from patchgen_core.registry import MODELING_REGISTRY, find_model_class

_HINT = "Register the generated classes (register_with_auto), or leave these heads out (exclude_from_output)."


def tell_of_upstream_base(base: type, heads: Sequence[str], declared: Location) -> Problem | str:
    """What there is to say of heads that AutoModel gives upstream's base model: a warning, or a note where the
    registry would give the patched one."""
    message = f"AutoModel puts upstream's {base.__name__} into {', '.join(heads)}"
    if is_registered(base):
        return f"{message}, without the patches, unless register_with_auto() was called"
    return Problem(f"{message}, without the patches", declared, _HINT, code=NOT_PATCHED, target=base.__name__)


def is_registered(base: type) -> bool:
    """Whether the registry of modeling classes gives a base model for its model type, on this machine or another.

    A folder that has one module for GPUs and one for NPUs gives the classes of what the machine has.
    """
    config_class: Any = getattr(base, "config_class", None)
    model_type = getattr(config_class, "model_type", "")
    if model_type not in MODELING_REGISTRY:
        return False
    try:
        model_class = find_model_class({"model_type": model_type, "architectures": [base.__name__]})
    except PatchgenError:  # registered for other devices, or other classes
        return False
    return model_class.__module__.rpartition(".")[0] == base.__module__.rpartition(".")[0]
