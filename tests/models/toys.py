"""Toys that batches are made for."""

from __future__ import annotations

from functools import cache

import torch
import transformers

from patchgen_core.models.batches import Batches, ToyModel
from patchgen_core.models.model_heads import KINDS
from patchgen_core.models.toy_batches import make_batches
from patchgen_core.models.toy_config import toy_config_for
from patchgen_core.models.toy_models import build_model, random_state

TEXT = {
    "llama": "LlamaForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "llama4_text": "Llama4ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "qwen3_next": "Qwen3NextForCausalLM",
    "bamba": "BambaForCausalLM",
}
PICTURES = {
    "qwen2_5_vl": "Qwen2_5_VLForConditionalGeneration",
    "qwen3_vl_moe": "Qwen3VLMoeForConditionalGeneration",
    "qwen3_omni_moe_thinker": "Qwen3OmniMoeThinkerForConditionalGeneration",
    "qwen2_5_omni_thinker": "Qwen2_5OmniThinkerForConditionalGeneration",
    "gemma3": "Gemma3ForConditionalGeneration",
    "llava": "LlavaForConditionalGeneration",
    "mistral3": "Mistral3ForConditionalGeneration",
    "lfm2_vl": "Lfm2VlForConditionalGeneration",
}


@cache
def toy_of(model_type: str, class_name: str = "") -> ToyModel:
    name = class_name or (TEXT | PICTURES)[model_type]
    model = build_model(getattr(transformers, name), toy_config_for(model_type), torch.float32)
    random_state(model)
    return ToyModel(model, next((kind for end, kind in KINDS.items() if name.endswith(end)), "base"))


@cache
def batches_of(model_type: str, class_name: str = "") -> Batches:
    return make_batches(toy_of(model_type, class_name))


NAMES = ["padded", "rows", "packed", "trainer", "embedded", "kept"]
