"""A project that registers models, configs and processors."""

from __future__ import annotations

from typing import Any

import torch

PATCH = """
from patchgen import PatchConfig

config = PatchConfig("transformers.models.qwen3.modeling_qwen3", "patched_modeling_qwen3_{device}.py")
config.exclude_from_output("Qwen3ForQuestionAnswering")


@config.override_method("Qwen3MLP.forward")
def qwen3_mlp_forward(self, x):
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
"""
VISION = """
from patchgen import PatchConfig

config = PatchConfig("transformers.models.qwen3_vl_moe.modeling_qwen3_vl_moe", "patched_modeling_qwen3_vl_moe_gpu.py")
"""
REGISTERED = """
from patchgen_core.registry import MODELING_REGISTRY


@MODELING_REGISTRY.register("qwen3", device_type="cuda")
def register_gpu(architecture):
    from .qwen3.generated.patched_modeling_qwen3_gpu import Qwen3ForCausalLM, Qwen3Model

    return Qwen3ForCausalLM if "ForCausalLM" in architecture else Qwen3Model


@MODELING_REGISTRY.register("qwen3", device_type="npu")
def register_npu(architecture):
    from .qwen3.generated import patched_modeling_qwen3_npu

    return getattr(patched_modeling_qwen3_npu, architecture)


@MODELING_REGISTRY.register("qwen3_vl_moe")
def register_vision(architecture):
    from .qwen3_vl_moe.generated.patched_modeling_qwen3_vl_moe_gpu import Qwen3VLMoeModel

    return Qwen3VLMoeModel
"""
GENERATED = "acme.qwen3.generated.patched_modeling_qwen3_gpu"
UPSTREAM = "transformers.models.qwen3.modeling_qwen3"
SIZES: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "max_position_embeddings": 64,
}


def home_of(auto: Any, config: Any) -> str:
    """The module of what an auto class makes of a config."""
    with torch.device("meta"):
        return type(auto.from_config(config)).__module__
