"""Qwen3 by op slots: it has Llama's norm, MLP, rotary embedding and heads, and so Llama's patches.

Where nothing is bound, the generated module runs upstream's own lines.

    patchgen zoo.qwen3.qwen3_gpu_patch_gen_config --diff
"""

import torch
from patchgen import PatchConfig
from transformers.modeling_flash_attention_utils import FlashAttentionKwargs
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs

from zoo.llama.llama_gpu_patch_gen_config import (
    SEQUENCE_PARALLEL,
    llama_apply_rotary_pos_emb,
    llama_for_causal_lm_forward,
    llama_for_sequence_classification_forward,
    llama_mlp_forward,
    llama_rms_norm_forward,
)

config = PatchConfig(
    source_module="transformers.models.qwen3.modeling_qwen3",
    target_file="patched_modeling_qwen3_gpu.py",
    description="Qwen3 with op slots for GPU training",
)

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_import("patchgen_core.runtime.parallel", names=list(SEQUENCE_PARALLEL))
config.add_import("transformers.modeling_outputs", names=["SequenceClassifierOutputWithPast"])
config.add_import("transformers.utils", names=["logging"])
config.add_post_import_block(
    """
    slot_rms_norm = OpSlot("rms_norm", "standard")
    slot_rotary_pos_emb = OpSlot("rotary_pos_emb", "full")
    slot_swiglu_mlp = OpSlot("swiglu_mlp", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    slot_seq_cls_loss = OpSlot("cross_entropy_loss", "seq_cls")
    """
)

# With kernels of the hub switched on, these would take the place of what is patched below.
config.drop_decorators("Qwen3RMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen3Attention", "use_kernelized_func")

config.override_method(
    "Qwen3RMSNorm.forward",
    replacement=llama_rms_norm_forward,
    name_map={"Llama": "Qwen3"},
    description="Op slot for RMSNorm",
)
config.override_method(
    "Qwen3MLP.forward", replacement=llama_mlp_forward, name_map={"Llama": "Qwen3"}, description="Op slot for SwiGLU"
)
config.replace_function(
    "apply_rotary_pos_emb", replacement=llama_apply_rotary_pos_emb, description="Op slot for the rotary embedding"
)
config.override_method(
    "Qwen3ForCausalLM.forward",
    replacement=llama_for_causal_lm_forward,
    name_map={"Llama": "Qwen3"},
    description="Op slot for the loss",
)
config.override_method(
    "Qwen3ForSequenceClassification.forward",
    replacement=llama_for_sequence_classification_forward,
    name_map={"Llama": "Qwen3"},
    description="Op slot for the loss of sequence classification",
)


# ================================================================
# Patch: Qwen3Attention.forward
# 1. under sequence parallelism each rank attends with its heads to whole sequences, of which it holds a slice
# ================================================================
@config.override_method("Qwen3Attention.forward", description="Sequence parallel attention")
def qwen3_attention_forward(
    self,
    hidden_states: torch.Tensor,
    position_embeddings: tuple[torch.Tensor, torch.Tensor],
    attention_mask: torch.Tensor | None,
    past_key_values: Cache | None = None,
    **kwargs: Unpack[FlashAttentionKwargs],
) -> tuple[torch.Tensor, torch.Tensor | None]:
    input_shape = hidden_states.shape[:-1]
    hidden_shape = (*input_shape, -1, self.head_dim)

    query_states = self.q_norm(self.q_proj(hidden_states).view(hidden_shape)).transpose(1, 2)
    key_states = self.k_norm(self.k_proj(hidden_states).view(hidden_shape)).transpose(1, 2)
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
        sliding_window=self.sliding_window,  # diff with Llama
        **kwargs,
    )

    attn_output = attn_output.reshape(*input_shape, -1).contiguous()
    attn_output = self.o_proj(attn_output)
    return attn_output, attn_weights


# ================================================================
# Patch: Qwen3Model.forward
# 1. under sequence parallelism positions and masks are those of whole sequences, the rest is this rank's slice
# ================================================================
@config.override_method("Qwen3Model.forward", description="Positions and masks of whole sequences")
def qwen3_model_forward(
    self,
    input_ids: torch.LongTensor | None = None,
    attention_mask: torch.Tensor | None = None,
    position_ids: torch.LongTensor | None = None,
    past_key_values: Cache | None = None,
    inputs_embeds: torch.Tensor | None = None,
    use_cache: bool | None = None,
    **kwargs: Unpack[TransformersKwargs],
) -> BaseModelOutputWithPast:
    if (input_ids is None) ^ (inputs_embeds is not None):
        raise ValueError("You must specify exactly one of input_ids or inputs_embeds")

    if inputs_embeds is None:
        inputs_embeds = self.embed_tokens(input_ids)

    if use_cache and past_key_values is None:
        past_key_values = DynamicCache(config=self.config)

    # --- Patch.1 ---
    check_position_ids(position_ids, inputs_embeds)
    # --- Patch.1 ---
    if position_ids is None:
        past_seen_tokens = past_key_values.get_seq_length() if past_key_values is not None else 0
        position_ids = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device) + past_seen_tokens
        position_ids = position_ids.unsqueeze(0)

    # It may already have been prepared by e.g. `generate`
    if not isinstance(causal_mask_mapping := attention_mask, dict):
        # Prepare mask arguments
        mask_kwargs = {
            "config": self.config,
            # --- Patch.1 ---
            "inputs_embeds": whole_sequence_like(inputs_embeds),
            # --- Patch.1 ---
            "attention_mask": attention_mask,
            "past_key_values": past_key_values,
            "position_ids": position_ids,
        }
        # Create the masks
        causal_mask_mapping = {
            "full_attention": create_causal_mask(**mask_kwargs),
        }
        # The sliding window alternating layers are not always activated depending on the config
        if self.has_sliding_layers:
            causal_mask_mapping["sliding_attention"] = create_sliding_window_causal_mask(**mask_kwargs)

    hidden_states = inputs_embeds
    position_embeddings = self.rotary_emb(hidden_states, position_ids)
    # --- Patch.1 ---
    position_embeddings = slice_position_embeddings(position_embeddings)
    # --- Patch.1 ---

    for i, decoder_layer in enumerate(self.layers[: self.config.num_hidden_layers]):
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
    return BaseModelOutputWithPast(
        last_hidden_state=hidden_states,
        past_key_values=past_key_values if use_cache else None,
    )
