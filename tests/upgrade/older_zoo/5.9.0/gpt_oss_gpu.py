"""gpt-oss by op slots: the losses are patched as Qwen3-MoE's and Llama's, norm and rotary embedding in its own way.

Where nothing is bound, the generated module runs upstream's own lines. What stays upstream's:

- ``GptOssExperts``: ``moe_experts/standard`` has no biases, wants gate and up one after the other and outputs first,
  and computes ``act(gate) * up``. Here gate and up are interleaved, inputs come first, both are clamped, and it is
  ``(up + 1) * gate * sigmoid(alpha * gate)``. transformers' own choice of experts stays on.
- attention: no slot has sinks, and upstream hands them to its attention functions itself.

    patchgen zoo.gpt_oss.gpt_oss_gpu_patch_gen_config --diff
"""

import torch
from patchgen import PatchConfig

from zoo.llama.llama_gpu_patch_gen_config import llama_for_sequence_classification_forward
from zoo.qwen3_moe.qwen3_moe_gpu_patch_gen_config import qwen3_moe_for_causal_lm_forward

config = PatchConfig(
    source_module="transformers.models.gpt_oss.modeling_gpt_oss",
    target_file="patched_modeling_gpt_oss_gpu.py",
    description="gpt-oss with op slots for GPU training",
)
_NAMES = {"Llama": "GptOss", "Qwen3Moe": "GptOss"}

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_import("transformers.modeling_outputs", names=["SequenceClassifierOutputWithPast"])
config.add_import("transformers.utils", names=["logging"])
config.add_post_import_block(
    """
    slot_rms_norm = OpSlot("rms_norm", "standard")
    slot_rotary_pos_emb = OpSlot("rotary_pos_emb", "full")
    slot_load_balancing_loss = OpSlot("moe_load_balancing_loss", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    slot_seq_cls_loss = OpSlot("cross_entropy_loss", "seq_cls")
    """
)

# With kernels of the hub switched on, these would take the place of what is patched below.
config.drop_decorators("GptOssRMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("GptOssAttention", "use_kernelized_func")


# ================================================================
# Patch: GptOssRMSNorm.forward
# 1. fused kernel where one is bound - in float32, for gpt-oss casts back after the weight and not before it
# ================================================================
@config.override_method("GptOssRMSNorm.forward", description="Op slot for RMSNorm")
def gpt_oss_rms_norm_forward(self, hidden_states) -> torch.Tensor:
    input_dtype = hidden_states.dtype
    hidden_states = hidden_states.to(torch.float32)
    # --- Patch.1 ---
    if slot_rms_norm.has_kernel:
        weight = self.weight.to(torch.float32)
        return slot_rms_norm(hidden_states, weight, self.variance_epsilon).to(input_dtype)
    # --- Patch.1 ---
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
    return (self.weight * hidden_states).to(input_dtype)  # main diff with Llama


# ================================================================
# Patch: apply_rotary_pos_emb
# 1. fused kernel where one is bound - cos and sin are half a head here, and the slot takes them whole
# ================================================================
@config.replace_function("apply_rotary_pos_emb", description="Op slot for the rotary embedding")
def gpt_oss_apply_rotary_pos_emb(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    # --- Patch.1 ---
    if slot_rotary_pos_emb.has_kernel:
        cos, sin = torch.cat((cos, cos), dim=-1), torch.cat((sin, sin), dim=-1)
        return slot_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)
    # --- Patch.1 ---
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    q_embed = _apply_rotary_emb(q, cos, sin)
    k_embed = _apply_rotary_emb(k, cos, sin)
    return q_embed, k_embed


config.override_method(
    "GptOssForCausalLM.forward",
    replacement=qwen3_moe_for_causal_lm_forward,
    name_map=_NAMES,
    description="Op slots for the losses",
)
config.override_method(
    "GptOssForSequenceClassification.forward",
    replacement=llama_for_sequence_classification_forward,
    name_map=_NAMES,
    description="Op slot for the loss of sequence classification",
)


# ================================================================
# Patch: GptOssForCausalLM.get_parallel_plan
# 1. new - a trainer asks the model which parameters it may split
# ================================================================
@config.override_method(
    "GptOssForCausalLM.get_parallel_plan", description="Expert parallel plan for trainers", add=True
)
def gpt_oss_get_parallel_plan(self):
    # --- Patch.1 ---
    from zoo.gpt_oss.parallel_plan import get_parallel_plan

    return get_parallel_plan()
    # --- Patch.1 ---
