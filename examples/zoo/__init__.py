"""Patched Hugging Face models, one folder each: the project that this repository's own gate runs on.

Importing it registers all of them; nothing heavy is imported before one is asked for.
"""

from zoo import (
    deepseek_v3,
    gemma3,
    glm_moe_dsa,
    gpt_oss,
    llama,
    mistral,
    mixtral,
    qwen2,
    qwen2_5_omni,
    qwen2_5_vl,
    qwen2_vl,
    qwen3,
    qwen3_5,
    qwen3_5_moe,
    qwen3_moe,
    qwen3_omni_moe,
    qwen3_vl,
    qwen3_vl_moe,
    seed_oss,
)

__all__ = [
    "deepseek_v3",
    "gemma3",
    "glm_moe_dsa",
    "gpt_oss",
    "llama",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen2_5_omni",
    "qwen2_5_vl",
    "qwen2_vl",
    "qwen3",
    "qwen3_5",
    "qwen3_5_moe",
    "qwen3_moe",
    "qwen3_omni_moe",
    "qwen3_vl",
    "qwen3_vl_moe",
    "seed_oss",
]
