"""Toy models of several families."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, PreTrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

FAMILIES = [
    *("llama", "qwen3", "gemma3", "gpt_oss", "seed_oss", "glm4_moe", "deepseek_v3", "qwen3_moe", "qwen3_next"),
    *("qwen3_5_moe", "qwen2_vl", "qwen2_5_vl", "qwen3_vl_moe", "llama4", "jamba", "bamba", "gemma3n_text", "lfm2_moe"),
]


def build(model_type: str, config: PreTrainedConfig) -> Any:
    auto = AutoModelForCausalLM
    if model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        auto = AutoModelForImageTextToText
    torch.manual_seed(0)
    return auto.from_config(config, attn_implementation="eager")
