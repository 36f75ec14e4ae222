"""What generated code and trainers call on many processes: sequence and expert parallelism, FSDP, checkpoints.

On one process, or before :func:`init_parallel_state`, every function that works on tensors returns what it is given.
The names below are loaded when they are first used; importing this package imports no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patchgen_core.runtime.parallel.attention import sequence_parallel_attention
    from patchgen_core.runtime.parallel.batches import slice_batch
    from patchgen_core.runtime.parallel.memory import materialize
    from patchgen_core.runtime.parallel.positions import (
        check_position_ids,
        check_whole_sequence,
        slice_position_embeddings,
        whole_sequence_like,
    )
    from patchgen_core.runtime.parallel.reduction import (
        clip_gradients,
        gather_router_logits,
        reduce_loss,
        sequence_parallel_load_balancing,
    )
    from patchgen_core.runtime.parallel.sequence import (
        gather_heads_scatter_seq,
        gather_outputs,
        gather_seq_scatter_heads,
        pad_cu_seqlens,
        slice_input_tensor,
        sp_pad_and_slice,
        sp_padding,
        unpad_tensor,
    )
    from patchgen_core.runtime.parallel.sharding import parallelize
    from patchgen_core.runtime.parallel.state import (
        ParallelState,
        add_parallel_state_hook,
        get_parallel_state,
        init_parallel_state,
        use_parallel_state,
    )
    from patchgen_core.runtime.parallel.towers import add_unused, select_features
    from patchgen_core.runtime.parallel.training_state import load_training_state, save_training_state

__all__ = [
    "ParallelState",
    "add_parallel_state_hook",
    "add_unused",
    "check_position_ids",
    "check_whole_sequence",
    "clip_gradients",
    "gather_heads_scatter_seq",
    "gather_outputs",
    "gather_router_logits",
    "gather_seq_scatter_heads",
    "get_parallel_state",
    "init_parallel_state",
    "load_training_state",
    "materialize",
    "pad_cu_seqlens",
    "parallelize",
    "reduce_loss",
    "save_training_state",
    "select_features",
    "sequence_parallel_attention",
    "sequence_parallel_load_balancing",
    "slice_batch",
    "slice_input_tensor",
    "slice_position_embeddings",
    "sp_pad_and_slice",
    "sp_padding",
    "unpad_tensor",
    "use_parallel_state",
    "whole_sequence_like",
]

_HOMES = {
    "ParallelState": "state",
    "add_parallel_state_hook": "state",
    "add_unused": "towers",
    "check_position_ids": "positions",
    "check_whole_sequence": "positions",
    "clip_gradients": "reduction",
    "gather_heads_scatter_seq": "sequence",
    "gather_outputs": "sequence",
    "gather_router_logits": "reduction",
    "gather_seq_scatter_heads": "sequence",
    "get_parallel_state": "state",
    "init_parallel_state": "state",
    "load_training_state": "training_state",
    "materialize": "memory",
    "pad_cu_seqlens": "sequence",
    "parallelize": "sharding",
    "reduce_loss": "reduction",
    "save_training_state": "training_state",
    "select_features": "towers",
    "sequence_parallel_attention": "attention",
    "sequence_parallel_load_balancing": "reduction",
    "slice_batch": "batches",
    "slice_input_tensor": "sequence",
    "slice_position_embeddings": "positions",
    "sp_pad_and_slice": "sequence",
    "sp_padding": "sequence",
    "unpad_tensor": "sequence",
    "use_parallel_state": "state",
    "whole_sequence_like": "positions",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"patchgen_core.runtime.parallel.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
