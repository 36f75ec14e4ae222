"""Memory for a model that was made without any, on each rank for its own parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from patchgen_core.errors import PatchgenError, quote_some


def materialize(model: nn.Module, device: torch.device | str | None = None) -> None:
    """Give a model on the meta device memory, and its buffers that no checkpoint has their values.

    ::

        with torch.device("meta"):
            model = Qwen3MoeForCausalLM(config)
        parallelize(model)
        materialize(model)
        load_state_dict_streaming(model, "Qwen3-30B-A3B")

    Parameters have no values before a checkpoint is loaded. Buffers get theirs from the ``_init_weights`` of the
    transformers models that they are in.

    Args:
        device: by default the accelerator, or the CPU where there is none or parameters are split over CPUs.

    Raises:
        PatchgenError: a buffer that no checkpoint has gets no values.
    """
    if not any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers())):
        return
    model.to_empty(device=device or _device_of(model))
    computed = {name: buffer for name, buffer in _computed_buffers(model) if buffer.is_floating_point()}
    for buffer in computed.values():
        buffer.fill_(float("nan"))
    with torch.no_grad():
        for part in model.modules():
            initialize: Any = getattr(part, "_init_weights", None)
            for module in part.modules() if callable(initialize) else ():
                if module._non_persistent_buffers_set:
                    initialize(module)
    missing = [name for name, buffer in computed.items() if bool(buffer.isnan().any())]
    if missing:
        raise PatchgenError(
            f"nothing gives these buffers of {type(model).__name__} values: {quote_some(missing, 3)}",
            hint="Make the model on a real device, or give its _init_weights a line for them.",
        )


def _device_of(model: nn.Module) -> torch.device:
    for parameter in model.parameters():
        mesh = getattr(parameter, "device_mesh", None)
        if mesh is not None:
            return torch.device(mesh.device_type)
    return torch.accelerator.current_accelerator() or torch.device("cpu")


def _computed_buffers(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for path, module in model.named_modules():
        for name in module._non_persistent_buffers_set:
            buffer = module._buffers[name]
            if buffer is not None:
                yield f"{path}.{name}" if path else name, buffer
