"""gpt-oss by op slots: the losses are patched as Qwen3-MoE's and Llama's, norm and rotary embedding in its own way.

Where nothing is bound, the generated module runs upstream's own lines. The experts have a variant of their own: they
have biases, gate and up are interleaved and clamped, inputs come first, and it is
``(up + 1) * gate * sigmoid(alpha * gate)``. Attention stays upstream's: no slot has sinks, and upstream hands them to
its attention functions itself.

    patchgen zoo.gpt_oss.gpt_oss_gpu_patch_gen_config --diff
"""

import torch
from patchgen import PatchConfig

from zoo.llama.llama_gpu_patch_gen_config import llama_for_sequence_classification_forward
from zoo.qwen3_moe.qwen3_moe_gpu_patch_gen_config import (
    SEQUENCE_PARALLEL_LOSSES,
    qwen3_moe_for_causal_lm_forward,
)

config = PatchConfig(
    source_module="transformers.models.gpt_oss.modeling_gpt_oss",
    target_file="patched_modeling_gpt_oss_gpu.py",
    description="gpt-oss with op slots for GPU training",
)
_NAMES = {"Llama": "GptOss", "Qwen3Moe": "GptOss"}

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_import("patchgen_core.runtime.parallel", names=list(SEQUENCE_PARALLEL_LOSSES))
config.add_import("transformers.modeling_outputs", names=["SequenceClassifierOutputWithPast"])
config.add_import("transformers.utils", names=["logging"])
config.add_post_import_block(
    """
    slot_rms_norm = OpSlot("rms_norm", "standard")
    slot_rotary_pos_emb = OpSlot("rotary_pos_emb", "full")
    slot_moe_experts = OpSlot("moe_experts", "gpt_oss")
    slot_load_balancing_loss = OpSlot("moe_load_balancing_loss", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    slot_seq_cls_loss = OpSlot("cross_entropy_loss", "seq_cls")
    """
)

# Kernels of the hub, and transformers' own choice of experts, would take the place of what is patched below.
config.drop_decorators("GptOssRMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("GptOssAttention", "use_kernelized_func")
config.drop_decorators("GptOssMLP", "use_kernel_forward_from_hub")
config.drop_decorators("GptOssExperts", "use_experts_implementation")


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
def gpt_oss_apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
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


# ================================================================
# Patch: GptOssExperts.forward
# 1. all experts in one grouped matrix multiply where a kernel is bound
# ================================================================
@config.override_method("GptOssExperts.forward", description="Op slot for the experts")
def gpt_oss_experts_forward(
    self, hidden_states: torch.Tensor, router_indices=None, routing_weights=None
) -> torch.Tensor:
    # --- Patch.1 ---
    if slot_moe_experts.has_kernel:
        return slot_moe_experts(
            hidden_states,
            router_indices,
            routing_weights,
            self.gate_up_proj,
            self.gate_up_proj_bias,
            self.down_proj,
            self.down_proj_bias,
            self.alpha,
            self.limit,
        )
    # --- Patch.1 ---
    next_states = torch.zeros_like(hidden_states, dtype=hidden_states.dtype, device=hidden_states.device)
    with torch.no_grad():
        expert_mask = torch.nn.functional.one_hot(
            router_indices, num_classes=self.num_experts
        )  # masking is also a class
        expert_mask = expert_mask.permute(2, 1, 0)
        # we sum on the top_k and on the sequence length to get which experts
        # are hit this time around
        expert_hit = torch.greater(expert_mask.sum(dim=(-1, -2)), 0).nonzero()
    for expert_idx in expert_hit:
        # expert_idx only have 1 element, so we can use scale for fast indexing
        expert_idx = expert_idx[0]
        # skip masking index
        if expert_idx == self.num_experts:
            continue
        top_k_pos, token_idx = torch.where(expert_mask[expert_idx])
        current_state = hidden_states[token_idx]
        gate_up = current_state @ self.gate_up_proj[expert_idx] + self.gate_up_proj_bias[expert_idx]
        gated_output = self._apply_gate(gate_up)
        out = gated_output @ self.down_proj[expert_idx] + self.down_proj_bias[expert_idx]
        weighted_output = out * routing_weights[token_idx, top_k_pos, None]
        next_states.index_add_(0, token_idx, weighted_output.to(hidden_states.dtype))

    return next_states


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
