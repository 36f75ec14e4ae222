"""What generated code calls at run time: op slots, and the registry of the kernels that can be bound to them.

The names below are loaded when they are first used; importing this package imports neither torch nor a kernel.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patchgen_core.ops.binding import Binding, bind_ops
    from patchgen_core.ops.config import OpsConfig
    from patchgen_core.ops.hardware import HardwareRequirement
    from patchgen_core.ops.kernel_spec import KernelSpec
    from patchgen_core.ops.losses import causal_lm_loss, seq_cls_loss
    from patchgen_core.ops.registry import KERNEL_REGISTRY, KernelRegistry
    from patchgen_core.ops.slot import OpSlot

__all__ = [
    "KERNEL_REGISTRY",
    "Binding",
    "HardwareRequirement",
    "KernelRegistry",
    "KernelSpec",
    "OpSlot",
    "OpsConfig",
    "bind_ops",
    "causal_lm_loss",
    "seq_cls_loss",
]

_HOMES = {
    "KERNEL_REGISTRY": "registry",
    "Binding": "binding",
    "HardwareRequirement": "hardware",
    "KernelRegistry": "registry",
    "KernelSpec": "kernel_spec",
    "OpSlot": "slot",
    "OpsConfig": "config",
    "bind_ops": "binding",
    "causal_lm_loss": "losses",
    "seq_cls_loss": "losses",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"patchgen_core.ops.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
