"""GLM-MoE-DSA by op slots: DeepSeek-V3's parts, and so its patches; attention and indexer are upstream's.

Where nothing is bound, the generated module runs upstream's own lines.

    patchgen zoo.glm_moe_dsa.glm_moe_dsa_gpu_patch_gen_config --diff
"""

from patchgen import PatchConfig

from zoo.deepseek_v3.deepseek_v3_gpu_patch_gen_config import deepseek_v3_for_causal_lm_forward
from zoo.llama.llama_gpu_patch_gen_config import llama_mlp_forward, llama_rms_norm_forward
from zoo.qwen3_moe.qwen3_moe_gpu_patch_gen_config import qwen3_moe_experts_forward, qwen3_moe_get_parallel_plan

config = PatchConfig(
    source_module="transformers.models.glm_moe_dsa.modeling_glm_moe_dsa",
    target_file="patched_modeling_glm_moe_dsa_gpu.py",
    description="GLM-MoE-DSA with op slots for GPU training",
    # The first layer has an indexer, the second one takes the tokens that the first one's chose.
    toy_config={"indexer_types": ["full", "shared"]},
)

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_post_import_block(
    """
    slot_rms_norm = OpSlot("rms_norm", "standard")
    slot_swiglu_mlp = OpSlot("swiglu_mlp", "standard")
    slot_moe_experts = OpSlot("moe_experts", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    """
)

# Kernels of the hub, and transformers' own choice of experts, would take the place of what is patched below.
config.drop_decorators("GlmMoeDsaRMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("GlmMoeDsaNaiveMoe", "use_experts_implementation")

# What is left as upstream has it:
# - the rotary embedding: rotary_pos_emb/full rotates halves of a head, and these heads are rotated by neighbouring
#   pairs, in the attention and in the indexer;
# - the indexer: its one norm is torch's LayerNorm of a small key for each token, and nothing in it has a gradient;
# - a load-balancing loss: upstream has none, the router balances by a bias on the choice of experts;
# - a head for sequence classification: upstream has none.

config.override_method(
    "GlmMoeDsaRMSNorm.forward",
    replacement=llama_rms_norm_forward,
    name_map={"Llama": "GlmMoeDsa"},
    description="Op slot for RMSNorm",
)

# A slot in forward, not Liger's MLP class in place of this one: the class takes its width from the configuration
# alone, and the shared experts are this MLP with a width of their own (intermediate_size=).
config.override_method(
    "GlmMoeDsaMLP.forward",
    replacement=llama_mlp_forward,
    name_map={"Llama": "GlmMoeDsa"},
    description="Op slot for SwiGLU",
)
config.override_method(
    "GlmMoeDsaNaiveMoe.forward",
    replacement=qwen3_moe_experts_forward,
    name_map={"Qwen3Moe": "GlmMoeDsa"},
    description="Op slot for the experts",
)
config.override_method(
    "GlmMoeDsaForCausalLM.forward",
    replacement=deepseek_v3_for_causal_lm_forward,
    name_map={"DeepseekV3": "GlmMoeDsa"},
    description="Op slot for the loss",
)
config.override_method(
    "GlmMoeDsaForCausalLM.get_parallel_plan",
    replacement=qwen3_moe_get_parallel_plan,
    name_map={"Qwen3Moe": "GlmMoeDsa", "qwen3_moe": "glm_moe_dsa"},
    description="Expert parallel plan for trainers",
    add=True,
)
