"""gpt-oss by op slots: the losses are patched as Qwen3-MoE's and Llama's, norm and rotary embedding in its own way.

Where nothing is bound, the generated module runs upstream's own lines. The experts have a variant of their own: they
have biases, gate and up are interleaved and clamped, inputs come first, and it is
``(up + 1) * gate * sigmoid(alpha * gate)``. Attention has no slot, as none has sinks: upstream hands them to its
attention functions itself. Ranks may share sequences; each of them then has the sinks of its heads.

    patchgen zoo.gpt_oss.gpt_oss_gpu_patch_gen_config --diff
"""

from typing import TYPE_CHECKING

import torch
from patchgen import PatchConfig

from zoo.llama.llama_gpu_patch_gen_config import SEQUENCE_PARALLEL, llama_for_sequence_classification_forward
from zoo.qwen3_moe.qwen3_moe_gpu_patch_gen_config import (
    SEQUENCE_PARALLEL_LOSSES,
    qwen3_moe_for_causal_lm_forward,
)

if TYPE_CHECKING:
    from patchgen_core.runtime.parallel import (
        check_position_ids,
        sequence_parallel_attention,
        slice_position_embeddings,
    )

    from zoo.gpt_oss.generated.patched_modeling_gpt_oss_gpu import slot_moe_experts, slot_rms_norm, slot_rotary_pos_emb

config = PatchConfig(
    source_module="transformers.models.gpt_oss.modeling_gpt_oss",
    target_file="patched_modeling_gpt_oss_gpu.py",
    description="gpt-oss with op slots for GPU training",
)
_NAMES = {"Llama": "GptOss", "Qwen3Moe": "GptOss"}

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_import("patchgen_core.runtime.parallel", names=sorted({*SEQUENCE_PARALLEL, *SEQUENCE_PARALLEL_LOSSES}))
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
@config.edit_method("GptOssRMSNorm.forward", at="variance = ...", description="Op slot for RMSNorm")
def gpt_oss_rms_norm_forward(self, hidden_states, input_dtype):
    if slot_rms_norm.has_kernel:
        weight = self.weight.to(torch.float32)
        return slot_rms_norm(hidden_states, weight, self.variance_epsilon).to(input_dtype)
    ...


# ================================================================
# Patch: apply_rotary_pos_emb
# 1. fused kernel where one is bound - cos and sin are half a head here, and the slot takes them whole
# ================================================================
config.drop_decorators("apply_rotary_pos_emb", "use_kernel_forward_from_hub")


@config.edit_function("apply_rotary_pos_emb", description="Op slot for the rotary embedding")
def gpt_oss_apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim):
    if slot_rotary_pos_emb.has_kernel:
        cos, sin = torch.cat((cos, cos), dim=-1), torch.cat((sin, sin), dim=-1)
        return slot_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)
    ...


# ================================================================
# Patch: GptOssExperts.forward
# 1. all experts in one grouped matrix multiply where a kernel is bound
# ================================================================
@config.edit_method("GptOssExperts.forward", description="Op slot for the experts")
def gpt_oss_experts_forward(self, hidden_states, router_indices, routing_weights):
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
    ...


# ================================================================
# Patch: GptOssAttention.forward
# 1. under sequence parallelism each rank attends with its heads and their sinks to whole sequences, of which it
#    holds a slice
# ================================================================
@config.edit_method(
    "GptOssAttention.forward",
    at="attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(...)",
    description="Sequence parallel attention",
)
def gpt_oss_attention_forward(attention_interface):
    ...
    attention_interface = sequence_parallel_attention(attention_interface)


# ================================================================
# Patch: GptOssModel.forward
# 1. under sequence parallelism positions and masks are those of whole sequences, the rest is this rank's slice
# ================================================================
@config.edit_method(
    "GptOssModel.forward", at="if inputs_embeds is None:", description="Positions and masks of whole sequences"
)
def gpt_oss_model_forward(position_ids, inputs_embeds):
    ...
    check_position_ids(position_ids, inputs_embeds)


config.replace_code(
    "GptOssModel.forward",
    '"inputs_embeds": inputs_embeds',
    '"inputs_embeds": whole_sequence_like(inputs_embeds)',
)


@config.edit_method("GptOssModel.forward", at="position_embeddings = self.rotary_emb(...)")
def call_slice_position_embeddings(position_embeddings):
    ...
    position_embeddings = slice_position_embeddings(position_embeddings)


config.edit_method(
    "GptOssForCausalLM.forward",
    edit=qwen3_moe_for_causal_lm_forward,
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
