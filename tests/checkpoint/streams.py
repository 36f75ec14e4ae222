"""Checkpoints that are read as streams."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from patchgen_core.checkpoint import (
    LoadReport,
    create_checkpoint_tensor_converter,
    load_state_dict_streaming,
)
from patchgen_core.errors import PatchgenError
from tests.checkpoint.checkpoints import (
    blank,
    generated,
)

INDEX = "model.safetensors.index.json"


def qwen3_moe(name: str = "Qwen3MoeForCausalLM") -> Any:
    return getattr(generated("qwen3_moe"), name)


def qwen3(name: str = "Qwen3ForCausalLM") -> Any:
    return getattr(generated("qwen3"), name)


def load(model: Any, files: Any, **options: Any) -> LoadReport:
    return load_state_dict_streaming(model, files, create_checkpoint_tensor_converter(model), **options)


def refused(model: Any, files: Any, *args: Any, **options: Any) -> str:
    """The text of the error; the model must be as it was."""
    before = {name: tensor.clone() for name, tensor in model.state_dict().items() if not tensor.is_meta}
    with pytest.raises(PatchgenError) as caught:
        load_state_dict_streaming(model, files, *args, **options)
    for name, tensor in before.items():
        assert torch.equal(tensor.nan_to_num(7), model.state_dict()[name].nan_to_num(7)), name
    return str(caught.value)


def two_layers() -> Any:
    return blank(qwen3_moe(), mlp_only_layers=[])
