"""Qwen3-MoE by op slots: norm, MLP and rotary embedding are those of Llama, and so are their patches.

Where nothing is bound, the generated module runs upstream's own lines. Ranks may share its experts and its sequences,
also both at once; attention is Qwen3's. What balances the experts is a loss of all tokens of a batch: ranks add up how
often each expert is chosen and how probable it is, two numbers for each, where gathering the router logits of all
layers would take a number for each token as well.

    patchgen zoo.qwen3_moe.qwen3_moe_gpu_patch_gen_config --diff
"""

import torch
from patchgen import PatchConfig
from transformers.modeling_outputs import MoeCausalLMOutputWithPast, MoeModelOutputWithPast
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs

from zoo.llama.llama_gpu_patch_gen_config import (
    SEQUENCE_PARALLEL,
    llama_apply_rotary_pos_emb,
    llama_for_sequence_classification_forward,
    llama_mlp_forward,
    llama_rms_norm_forward,
)
from zoo.qwen3.qwen3_gpu_patch_gen_config import qwen3_attention_forward

# Of three of eight experts, the last one is now and then as near to the next that bfloat16 decides between them, and
# upstream itself takes the other one than in float64. With two of four no toy batch has such a token.
config = PatchConfig(
    source_module="transformers.models.qwen3_moe.modeling_qwen3_moe",
    target_file="patched_modeling_qwen3_moe_gpu.py",
    description="Qwen3-MoE with op slots for GPU training",
)
_NAMES = {"Llama": "Qwen3Moe"}

SEQUENCE_PARALLEL_LOSSES = ("reduce_loss", "sequence_parallel_load_balancing")
"""What the patch of the causal language model calls, of ``patchgen_core.runtime.parallel``."""

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_import("patchgen_core.runtime.parallel", names=sorted({*SEQUENCE_PARALLEL, *SEQUENCE_PARALLEL_LOSSES}))
config.add_import("transformers.modeling_outputs", names=["SequenceClassifierOutputWithPast"])
config.add_import("transformers.utils", names=["logging"])
config.add_post_import_block(
    """
    slot_rms_norm = OpSlot("rms_norm", "standard")
    slot_rotary_pos_emb = OpSlot("rotary_pos_emb", "full")
    slot_swiglu_mlp = OpSlot("swiglu_mlp", "standard")
    slot_moe_experts = OpSlot("moe_experts", "standard")
    slot_load_balancing_loss = OpSlot("moe_load_balancing_loss", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    slot_seq_cls_loss = OpSlot("cross_entropy_loss", "seq_cls")
    """
)

# Kernels of the hub, and transformers' own choice of experts, would take the place of what is patched below.
config.drop_decorators("Qwen3MoeRMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen3MoeAttention", "use_kernelized_func")
config.drop_decorators("Qwen3MoeExperts", "use_experts_implementation")


config.override_method(
    "Qwen3MoeRMSNorm.forward",
    replacement=llama_rms_norm_forward,
    name_map=_NAMES,
    description="Op slot for RMSNorm",
)
config.override_method(
    "Qwen3MoeMLP.forward", replacement=llama_mlp_forward, name_map=_NAMES, description="Op slot for SwiGLU"
)
config.replace_function(
    "apply_rotary_pos_emb", replacement=llama_apply_rotary_pos_emb, description="Op slot for the rotary embedding"
)


# ================================================================
# Patch: Qwen3MoeExperts.forward
# 1. all experts in one grouped matrix multiply where a kernel is bound
# ================================================================
@config.override_method("Qwen3MoeExperts.forward", description="Op slot for the experts")
def qwen3_moe_experts_forward(
    self,
    hidden_states: torch.Tensor,
    top_k_index: torch.Tensor,
    top_k_weights: torch.Tensor,
) -> torch.Tensor:
    # --- Patch.1 ---
    if slot_moe_experts.has_kernel:
        return slot_moe_experts(
            hidden_states, top_k_index, top_k_weights, self.gate_up_proj, self.down_proj, self.act_fn
        )
    # --- Patch.1 ---
    final_hidden_states = torch.zeros_like(hidden_states)
    with torch.no_grad():
        expert_mask = torch.nn.functional.one_hot(top_k_index, num_classes=self.num_experts + 1)
        expert_mask = expert_mask.permute(2, 1, 0)
        expert_hit = torch.greater(expert_mask.sum(dim=(-1, -2)), 0).nonzero()

    for expert_idx in expert_hit:
        expert_idx = expert_idx[0]
        if expert_idx == self.num_experts:
            continue
        top_k_pos, token_idx = torch.where(expert_mask[expert_idx])
        current_state = hidden_states[token_idx]
        gate, up = nn.functional.linear(current_state, self.gate_up_proj[expert_idx]).chunk(2, dim=-1)
        current_hidden_states = self.act_fn(gate) * up
        current_hidden_states = nn.functional.linear(current_hidden_states, self.down_proj[expert_idx])
        current_hidden_states = current_hidden_states * top_k_weights[token_idx, top_k_pos, None]
        final_hidden_states.index_add_(0, token_idx, current_hidden_states.to(final_hidden_states.dtype))

    return final_hidden_states


config.override_method(
    "Qwen3MoeAttention.forward",
    replacement=qwen3_attention_forward,
    name_map={"Qwen3": "Qwen3Moe"},
    description="Sequence parallel attention",
)


# ================================================================
# Patch: Qwen3MoeModel.forward
# 1. under sequence parallelism positions and masks are those of whole sequences, the rest is this rank's slice
# ================================================================
@config.override_method("Qwen3MoeModel.forward", description="Positions and masks of whole sequences")
def qwen3_moe_model_forward(
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

    mask_function = create_causal_mask if self.config.sliding_window is None else create_sliding_window_causal_mask
    causal_mask = mask_function(
        config=self.config,
        # --- Patch.1 ---
        inputs_embeds=whole_sequence_like(inputs_embeds),
        # --- Patch.1 ---
        attention_mask=attention_mask,
        past_key_values=past_key_values,
        position_ids=position_ids,
    )

    hidden_states = inputs_embeds
    position_embeddings = self.rotary_emb(hidden_states, position_ids=position_ids)
    # --- Patch.1 ---
    position_embeddings = slice_position_embeddings(position_embeddings)
    # --- Patch.1 ---

    for decoder_layer in self.layers[: self.config.num_hidden_layers]:
        hidden_states = decoder_layer(
            hidden_states,
            attention_mask=causal_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            use_cache=use_cache,
            position_embeddings=position_embeddings,
            **kwargs,
        )

    hidden_states = self.norm(hidden_states)

    return MoeModelOutputWithPast(  # only diff with Mistral is the output type, we need MoE
        last_hidden_state=hidden_states,
        past_key_values=past_key_values,
    )


# ================================================================
# Patch: Qwen3MoeForCausalLM.forward
# 1. fused linear cross entropy where a kernel is bound - no logits are made then
# 2. load-balancing loss by its slot
# 3. under sequence parallelism both losses are those of whole sequences
# ================================================================
@config.override_method("Qwen3MoeForCausalLM.forward", description="Op slots for the losses")
def qwen3_moe_for_causal_lm_forward(
    self,
    input_ids: torch.LongTensor | None = None,
    attention_mask: torch.Tensor | None = None,
    position_ids: torch.LongTensor | None = None,
    past_key_values: Cache | None = None,
    inputs_embeds: torch.Tensor | None = None,
    labels: torch.LongTensor | None = None,
    use_cache: bool | None = None,
    output_router_logits: bool | None = None,
    logits_to_keep: int | torch.Tensor = 0,
    **kwargs: Unpack[TransformersKwargs],
) -> MoeCausalLMOutputWithPast:
    output_router_logits = (
        output_router_logits if output_router_logits is not None else self.config.output_router_logits
    )

    # decoder outputs consists of (dec_features, layer_state, dec_hidden, dec_attn)
    outputs: MoeModelOutputWithPast = self.model(
        input_ids=input_ids,
        attention_mask=attention_mask,
        position_ids=position_ids,
        past_key_values=past_key_values,
        inputs_embeds=inputs_embeds,
        use_cache=use_cache,
        output_router_logits=output_router_logits,
        **kwargs,
    )

    hidden_states = outputs.last_hidden_state
    loss = None
    logits = None
    # --- Patch.1 ---
    if labels is not None and slot_causal_lm_loss.has_kernel:
        shift_labels = kwargs.get("shift_labels")
        loss = slot_causal_lm_loss(
            hidden_states,
            self.lm_head.weight,
            labels if shift_labels is None else None,
            shift_labels=shift_labels,
            logits_to_keep=logits_to_keep,
            num_items_in_batch=kwargs.get("num_items_in_batch"),
            ignore_index=kwargs.get("ignore_index", -100),
        )
    else:
        # --- Patch.1 ---
        hidden_states = slice_logits_to_keep(hidden_states, logits_to_keep)
        logits = self.lm_head(hidden_states)
        if labels is not None:
            loss = self.loss_function(logits, labels, self.vocab_size, **kwargs)
    # --- Patch.3 ---
    if loss is not None:
        loss = reduce_loss(
            loss,
            kwargs.get("shift_labels", labels),
            num_items_in_batch=kwargs.get("num_items_in_batch"),
            ignore_index=kwargs.get("ignore_index", -100),
        )
    # --- Patch.3 ---

    aux_loss = None
    if output_router_logits:
        # --- Patch.2 ---
        balance = slot_load_balancing_loss if slot_load_balancing_loss.has_kernel else load_balancing_loss_func
        # --- Patch.3 ---
        balance = sequence_parallel_load_balancing(balance)
        # --- Patch.3 ---
        aux_loss = balance(
            outputs.router_logits,
            self.num_experts,
            self.num_experts_per_tok,
            # --- Patch.3 ---
            kwargs.get("token_mask", attention_mask),
            # --- Patch.3 ---
        )
        # --- Patch.2 ---
        if labels is not None:
            loss += self.router_aux_loss_coef * aux_loss.to(loss.device)  # make sure to reside in the same device

    return MoeCausalLMOutputWithPast(
        loss=loss,
        aux_loss=aux_loss,
        logits=logits,
        past_key_values=outputs.past_key_values,
        hidden_states=outputs.hidden_states,
        attentions=outputs.attentions,
        router_logits=outputs.router_logits,
    )


config.override_method(
    "Qwen3MoeForSequenceClassification.forward",
    replacement=llama_for_sequence_classification_forward,
    name_map=_NAMES,
    description="Op slot for the loss of sequence classification",
)


# ================================================================
# Patch: Qwen3MoeForCausalLM.get_parallel_plan
# 1. new - a trainer asks the model which parameters it may split
# ================================================================
@config.override_method(
    "Qwen3MoeForCausalLM.get_parallel_plan", description="Expert parallel plan for trainers", add=True
)
def qwen3_moe_get_parallel_plan(self):
    # --- Patch.1 ---
    from zoo.qwen3_moe.parallel_plan import get_parallel_plan

    return get_parallel_plan()
    # --- Patch.1 ---
