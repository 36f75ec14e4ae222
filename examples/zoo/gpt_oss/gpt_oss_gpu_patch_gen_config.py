"""gpt-oss by op slots: the losses are patched as Qwen3-MoE's and Llama's, norm and rotary embedding in its own way.

Where nothing is bound, the generated module runs upstream's own lines. The experts have a variant of their own: they
have biases, gate and up are interleaved and clamped, inputs come first, and it is
``(up + 1) * gate * sigmoid(alpha * gate)``. Attention has no slot, as none has sinks: upstream hands them to its
attention functions itself. Ranks may share sequences; each of them then has the sinks of its heads.

    patchgen zoo.gpt_oss.gpt_oss_gpu_patch_gen_config --diff
"""

import torch
from patchgen import PatchConfig
from transformers.modeling_outputs import MoeModelOutputWithPast
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs

from zoo.llama.llama_gpu_patch_gen_config import SEQUENCE_PARALLEL, llama_for_sequence_classification_forward
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


# ================================================================
# Patch: GptOssAttention.forward
# 1. under sequence parallelism each rank attends with its heads and their sinks to whole sequences, of which it
#    holds a slice
# ================================================================
@config.override_method("GptOssAttention.forward", description="Sequence parallel attention")
def gpt_oss_attention_forward(
    self,
    hidden_states: torch.Tensor,
    position_embeddings: tuple[torch.Tensor, torch.Tensor],
    attention_mask: torch.Tensor | None,
    past_key_values: Cache | None = None,
    **kwargs: Unpack[TransformersKwargs],
) -> tuple[torch.Tensor, torch.Tensor]:
    input_shape = hidden_states.shape[:-1]
    hidden_shape = (*input_shape, -1, self.head_dim)

    query_states = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)
    key_states = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)
    value_states = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)

    cos, sin = position_embeddings
    query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin)

    if past_key_values is not None:
        key_states, value_states = past_key_values.update(key_states, value_states, self.layer_idx)

    attention_interface: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
        self.config._attn_implementation, eager_attention_forward
    )
    # --- Patch.1 ---
    attention_interface = sequence_parallel_attention(attention_interface)
    # --- Patch.1 ---

    attn_output, attn_weights = attention_interface(
        self,
        query_states,
        key_states,
        value_states,
        attention_mask,
        dropout=0.0 if not self.training else self.attention_dropout,
        scaling=self.scaling,
        sliding_window=self.sliding_window,
        s_aux=self.sinks,  # diff with Llama
        **kwargs,
    )

    attn_output = attn_output.reshape(*input_shape, -1).contiguous()
    attn_output = self.o_proj(attn_output)
    return attn_output, attn_weights


# ================================================================
# Patch: GptOssModel.forward
# 1. under sequence parallelism positions and masks are those of whole sequences, the rest is this rank's slice
# ================================================================
@config.override_method("GptOssModel.forward", description="Positions and masks of whole sequences")
def gpt_oss_model_forward(
    self,
    input_ids: torch.LongTensor | None = None,
    attention_mask: torch.Tensor | None = None,
    position_ids: torch.LongTensor | None = None,
    past_key_values: Cache | None = None,
    inputs_embeds: torch.Tensor | None = None,
    use_cache: bool | None = None,
    **kwargs: Unpack[TransformersKwargs],
) -> MoeModelOutputWithPast:
    if (input_ids is None) ^ (inputs_embeds is not None):
        raise ValueError("You must specify exactly one of input_ids or inputs_embeds")

    if use_cache and past_key_values is None:
        past_key_values = DynamicCache(config=self.config)

    if inputs_embeds is None:
        inputs_embeds = self.embed_tokens(input_ids)

    # --- Patch.1 ---
    check_position_ids(position_ids, inputs_embeds)
    # --- Patch.1 ---
    if position_ids is None:
        past_seen_tokens = past_key_values.get_seq_length() if past_key_values is not None else 0
        position_ids = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device) + past_seen_tokens
        position_ids = position_ids.unsqueeze(0)

    # It may already have been prepared by e.g. `generate`
    if not isinstance(causal_mask_mapping := attention_mask, dict):
        mask_kwargs = {
            "config": self.config,
            # --- Patch.1 ---
            "inputs_embeds": whole_sequence_like(inputs_embeds),
            # --- Patch.1 ---
            "attention_mask": attention_mask,
            "past_key_values": past_key_values,
        }
        causal_mask_mapping = {
            "full_attention": create_causal_mask(**mask_kwargs),
            "sliding_attention": create_sliding_window_causal_mask(**mask_kwargs),
        }

    hidden_states = inputs_embeds
    position_embeddings = self.rotary_emb(hidden_states, position_ids)
    # --- Patch.1 ---
    position_embeddings = slice_position_embeddings(position_embeddings)
    # --- Patch.1 ---

    for i, decoder_layer in enumerate(self.layers):
        hidden_states = decoder_layer(
            hidden_states,
            attention_mask=causal_mask_mapping[self.config.layer_types[i]],
            position_embeddings=position_embeddings,
            position_ids=position_ids,
            past_key_values=past_key_values,
            use_cache=use_cache,
            **kwargs,
        )
    hidden_states = self.norm(hidden_states)
    return MoeModelOutputWithPast(
        last_hidden_state=hidden_states,
        past_key_values=past_key_values,
    )


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
