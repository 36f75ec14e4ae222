"""GLM-MoE-DSA by op slots: DeepSeek-V3's parts, and so its patches. Ranks may share its sequences.

Where nothing is bound, the generated module runs upstream's own lines. An indexer chooses for each token which others
it attends to. Under sequence parallelism each rank's indexer compares its own tokens with those of the whole sequence,
whose keys it gathers, one small vector for each token; what all ranks have chosen then makes the mask of the whole.

    patchgen zoo.glm_moe_dsa.glm_moe_dsa_gpu_patch_gen_config --diff
"""

from typing import TYPE_CHECKING

from patchgen import PatchConfig

from zoo.deepseek_v3.deepseek_v3_gpu_patch_gen_config import deepseek_v3_for_causal_lm_forward
from zoo.llama.llama_gpu_patch_gen_config import SEQUENCE_PARALLEL, llama_mlp_forward, llama_rms_norm_forward
from zoo.qwen3_moe.qwen3_moe_gpu_patch_gen_config import qwen3_moe_experts_forward, qwen3_moe_get_parallel_plan

if TYPE_CHECKING:
    from patchgen_core.runtime.parallel import (
        check_position_ids,
        gather_outputs,
        sequence_parallel_attention,
        slice_input_tensor,
        slice_position_embeddings,
    )

config = PatchConfig(
    source_module="transformers.models.glm_moe_dsa.modeling_glm_moe_dsa",
    target_file="patched_modeling_glm_moe_dsa_gpu.py",
    description="GLM-MoE-DSA with op slots for GPU training",
    # The first layer has an indexer, the second one takes the tokens that the first one's chose.
    toy_config={"indexer_types": ["full", "shared"]},
)

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_import(
    "patchgen_core.runtime.parallel", names=sorted([*SEQUENCE_PARALLEL, "gather_outputs", "slice_input_tensor"])
)
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
config.drop_decorators("GlmMoeDsaExperts", "use_experts_implementation")

# What is left as upstream has it:
# - the rotary embedding: rotary_pos_emb/full rotates halves of a head, and these heads are rotated by neighbouring
#   pairs, in the attention and in the indexer;
# - the indexer: its one norm is torch's LayerNorm of a small key for each token, and nothing in it has a gradient;
# - a load-balancing loss: upstream has none, the router balances by a bias on the choice of experts;
# - a head for sequence classification: upstream has none.

config.edit_method(
    "GlmMoeDsaRMSNorm.forward",
    edit=llama_rms_norm_forward,
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
config.edit_method(
    "GlmMoeDsaExperts.forward",
    edit=qwen3_moe_experts_forward,
    name_map={"Qwen3Moe": "GlmMoeDsa"},
    description="Op slot for the experts",
)


# ================================================================
# Patch: GlmMoeDsaIndexer.forward
# 1. under sequence parallelism the tokens of a slice are compared with those of the whole sequence
# ================================================================
@config.edit_method(
    "GlmMoeDsaIndexer.forward",
    at="k = torch.cat([k_rot, k_pass], dim=-1).squeeze(2)",
    description="Slices choose among whole sequences",
)
def glm_moe_dsa_indexer_forward(attention_mask, k):
    ...
    k = gather_outputs(k, 1)
    attention_mask = slice_input_tensor(attention_mask, 1, padding=False)


config.replace_code("GlmMoeDsaIndexer.forward", "return $INDICES", "return gather_outputs($INDICES, 1)")


# ================================================================
# Patch: GlmMoeDsaAttention.forward
# 1. under sequence parallelism each rank attends with its heads to whole sequences, of which it holds a slice
# 2. the tokens that were chosen are those of whole sequences, and so is the mask that they make
# ================================================================
config.replace_code(
    "GlmMoeDsaAttention.forward",
    "topk_indices.new_ones((batch_size, seq_length, key_states.shape[2]), dtype=torch.bool)",
    "topk_indices.new_ones((*topk_indices.shape[:2], attention_mask.shape[-1]), dtype=torch.bool)",
    description="Sequence parallel attention",
)


@config.edit_method(
    "GlmMoeDsaAttention.forward", at="attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(...)"
)
def glm_moe_dsa_attention_forward(attention_interface):
    ...
    attention_interface = sequence_parallel_attention(attention_interface)


# ================================================================
# Patch: GlmMoeDsaModel.forward
# 1. under sequence parallelism positions and masks are those of whole sequences, the rest is this rank's slice
# ================================================================
@config.edit_method(
    "GlmMoeDsaModel.forward",
    at="if use_cache and past_key_values is None:",
    description="Positions and masks of whole sequences",
)
def glm_moe_dsa_model_forward(position_ids, inputs_embeds):
    ...
    check_position_ids(position_ids, inputs_embeds)


config.replace_code(
    "GlmMoeDsaModel.forward",
    '"inputs_embeds": inputs_embeds',
    '"inputs_embeds": whole_sequence_like(inputs_embeds)',
)


@config.edit_method("GlmMoeDsaModel.forward", at="position_embeddings = self.rotary_emb(...)")
def call_slice_position_embeddings(position_embeddings):
    ...
    position_embeddings = slice_position_embeddings(position_embeddings)


config.edit_method(
    "GlmMoeDsaForCausalLM.forward",
    edit=deepseek_v3_for_causal_lm_forward,
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
