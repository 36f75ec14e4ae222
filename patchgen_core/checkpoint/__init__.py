"""Run time: load the hub's checkpoints into fused mixture-of-experts parameters, and write them back.

The names below are loaded when they are first used; importing this package imports no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patchgen_core.checkpoint.converters import (
        DirectConverter,
        PerExpertConverter,
        TransposedFusedConverter,
        create_checkpoint_tensor_converter,
        create_direct_converter,
        create_per_expert_converter,
        create_transposed_fused_converter,
    )
    from patchgen_core.checkpoint.detection import check_converter_layout, detect_layout, detect_layout_for
    from patchgen_core.checkpoint.hub import to_hub_layout
    from patchgen_core.checkpoint.protocol import (
        CheckpointTensorConverter,
        ConvertedCheckpointTensor,
        Layout,
        maybe_convert_checkpoint_tensor,
    )
    from patchgen_core.checkpoint.streaming import LoadReport, load_state_dict_streaming

__all__ = [
    "CheckpointTensorConverter",
    "ConvertedCheckpointTensor",
    "DirectConverter",
    "Layout",
    "LoadReport",
    "PerExpertConverter",
    "TransposedFusedConverter",
    "check_converter_layout",
    "create_checkpoint_tensor_converter",
    "create_direct_converter",
    "create_per_expert_converter",
    "create_transposed_fused_converter",
    "detect_layout",
    "detect_layout_for",
    "load_state_dict_streaming",
    "maybe_convert_checkpoint_tensor",
    "to_hub_layout",
]

_HOMES = {
    "CheckpointTensorConverter": "protocol",
    "ConvertedCheckpointTensor": "protocol",
    "DirectConverter": "converters",
    "Layout": "protocol",
    "LoadReport": "streaming",
    "PerExpertConverter": "converters",
    "TransposedFusedConverter": "converters",
    "check_converter_layout": "detection",
    "create_checkpoint_tensor_converter": "converters",
    "create_direct_converter": "converters",
    "create_per_expert_converter": "converters",
    "create_transposed_fused_converter": "converters",
    "detect_layout": "detection",
    "detect_layout_for": "detection",
    "load_state_dict_streaming": "streaming",
    "maybe_convert_checkpoint_tensor": "protocol",
    "to_hub_layout": "hub",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"patchgen_core.checkpoint.{_HOMES[name]}"), name)
