"""DeepSeek-V3 by op slots: Llama's norm and MLP, Qwen3-MoE's experts, and so their patches. Ranks may share sequences.

Where nothing is bound, the generated module runs upstream's own lines. GLM-MoE-DSA has the same head for language
modeling: it imports the patch.

    patchgen zoo.deepseek_v3.deepseek_v3_gpu_patch_gen_config --diff
"""

import torch
from patchgen import PatchConfig
from transformers.modeling_flash_attention_utils import FlashAttentionKwargs
from transformers.modeling_outputs import MoeCausalLMOutputWithPast, MoeModelOutputWithPast
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs

from zoo.llama.llama_gpu_patch_gen_config import (
    SEQUENCE_PARALLEL,
    llama_for_sequence_classification_forward,
    llama_mlp_forward,
    llama_rms_norm_forward,
)
from zoo.qwen3_moe.qwen3_moe_gpu_patch_gen_config import qwen3_moe_experts_forward, qwen3_moe_get_parallel_plan

config = PatchConfig(
    source_module="transformers.models.deepseek_v3.modeling_deepseek_v3",
    target_file="patched_modeling_deepseek_v3_gpu.py",
    description="DeepSeek-V3 with op slots for GPU training",
)

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_import("patchgen_core.runtime.parallel", names=list(SEQUENCE_PARALLEL))
config.add_import("transformers.modeling_outputs", names=["SequenceClassifierOutputWithPast"])
config.add_import("transformers.utils", names=["logging"])
config.add_post_import_block(
    """
    slot_rms_norm = OpSlot("rms_norm", "standard")
    slot_swiglu_mlp = OpSlot("swiglu_mlp", "standard")
    slot_moe_experts = OpSlot("moe_experts", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    slot_seq_cls_loss = OpSlot("cross_entropy_loss", "seq_cls")
    """
)

# Kernels of the hub, and transformers' own choice of experts, would take the place of what is patched below.
config.drop_decorators("DeepseekV3RMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("DeepseekV3Experts", "use_experts_implementation")

# What is left as upstream has it:
# - the rotary embedding: rotary_pos_emb/full rotates halves of a head, and these heads are rotated by neighbouring
#   pairs (rope_interleave, the default). Without rope_interleave the kernel would fit, but a toy model takes one of
#   the two ways, and a patch of the other would go unproved;
# - a load-balancing loss: upstream has none, the router balances by a bias on the choice of experts.

config.override_method(
    "DeepseekV3RMSNorm.forward",
    replacement=llama_rms_norm_forward,
    name_map={"Llama": "DeepseekV3"},
    description="Op slot for RMSNorm",
)

# A slot in forward, not Liger's MLP class in place of this one: the class takes its width from the configuration
# alone, and the shared experts are this MLP with a width of their own (intermediate_size=).
config.override_method(
    "DeepseekV3MLP.forward",
    replacement=llama_mlp_forward,
    name_map={"Llama": "DeepseekV3"},
    description="Op slot for SwiGLU",
)
config.override_method(
    "DeepseekV3Experts.forward",
    replacement=qwen3_moe_experts_forward,
    name_map={"Qwen3Moe": "DeepseekV3"},
    description="Op slot for the experts",
)


# ================================================================
# Patch: DeepseekV3Attention.forward
# 1. under sequence parallelism each rank attends with its heads to whole sequences, of which it holds a slice. What
#    is exchanged are keys and values of all heads, after the latents: each head's key has the rotated part that all
#    heads share, and values have a width of their own
# ================================================================
@config.override_method("DeepseekV3Attention.forward", description="Sequence parallel attention")
def deepseek_v3_attention_forward(
    self,
    hidden_states: torch.Tensor,
    position_embeddings: tuple[torch.Tensor, torch.Tensor],
    attention_mask: torch.Tensor | None,
    past_key_values: Cache | None = None,
    **kwargs: Unpack[FlashAttentionKwargs],
) -> tuple[torch.Tensor, torch.Tensor | None, tuple[torch.Tensor] | None]:
    batch_size, seq_length = hidden_states.shape[:-1]
    query_shape = (batch_size, seq_length, -1, self.qk_head_dim)

    if self.q_lora_rank is None:
        q_states = self.q_proj(hidden_states)
    else:
        q_states = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(hidden_states)))
    q_states = q_states.view(query_shape).transpose(1, 2)
    q_pass, q_rot = torch.split(q_states, [self.qk_nope_head_dim, self.qk_rope_head_dim], dim=-1)

    compressed_kv = self.kv_a_proj_with_mqa(hidden_states)
    kv_nope, k_rot = torch.split(compressed_kv, [self.kv_lora_rank, self.qk_rope_head_dim], dim=-1)
    kv_nope = self.kv_a_layernorm(kv_nope)
    # Both latents are viewed as single-head, 4D tensors so all cache layers handle them correctly
    kv_nope = kv_nope.view(batch_size, 1, seq_length, self.kv_lora_rank)
    k_rot = k_rot.view(batch_size, 1, seq_length, self.qk_rope_head_dim)

    cos, sin = position_embeddings
    if self.config.rope_interleave:  # support using interleaved weights for efficiency
        q_rot, k_rot = apply_rotary_pos_emb_interleave(q_rot, k_rot, cos, sin)
    else:
        q_rot, k_rot = apply_rotary_pos_emb(q_rot, k_rot, cos, sin)

    # Cache read / write is performed while latent KV is still compressed
    if past_key_values is not None:
        kv_nope, k_rot = past_key_values.update(kv_nope, k_rot, self.layer_idx)

    query_states = torch.cat((q_pass, q_rot), dim=-1)

    key_states, value_states = self.expand_kv(kv_nope, k_rot)

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
        **kwargs,
    )

    attn_output = attn_output.reshape(batch_size, seq_length, -1).contiguous()
    attn_output = self.o_proj(attn_output)
    return attn_output, attn_weights


# ================================================================
# Patch: DeepseekV3Model.forward
# 1. under sequence parallelism positions and masks are those of whole sequences, the rest is this rank's slice
# ================================================================
@config.override_method("DeepseekV3Model.forward", description="Positions and masks of whole sequences")
def deepseek_v3_model_forward(
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

    causal_mask = create_causal_mask(  # diff with mixtral: no sliding
        config=self.config,
        # --- Patch.1 ---
        inputs_embeds=whole_sequence_like(inputs_embeds),
        # --- Patch.1 ---
        attention_mask=attention_mask,
        past_key_values=past_key_values,
        position_ids=position_ids,
    )

    hidden_states = inputs_embeds

    # create position embeddings to be shared across the decoder layers
    position_embeddings = self.rotary_emb(hidden_states, position_ids)
    # --- Patch.1 ---
    position_embeddings = slice_position_embeddings(position_embeddings)
    # --- Patch.1 ---

    for decoder_layer in self.layers[: self.config.num_hidden_layers]:
        hidden_states = decoder_layer(
            hidden_states,
            position_embeddings=position_embeddings,
            attention_mask=causal_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            use_cache=use_cache,
            **kwargs,
        )

    hidden_states = self.norm(hidden_states)

    return MoeModelOutputWithPast(  # only diff with Mistral is the output type, we need MoE
        last_hidden_state=hidden_states,
        past_key_values=past_key_values,
    )


# ================================================================
# Patch: DeepseekV3ForCausalLM.forward
# 1. fused linear cross entropy where a kernel is bound - no logits are made then
# 2. under sequence parallelism the loss is that of whole sequences
# ================================================================
@config.override_method("DeepseekV3ForCausalLM.forward", description="Op slot for the loss")
def deepseek_v3_for_causal_lm_forward(
    self,
    input_ids: torch.LongTensor | None = None,
    attention_mask: torch.Tensor | None = None,
    position_ids: torch.LongTensor | None = None,
    past_key_values: Cache | None = None,
    inputs_embeds: torch.Tensor | None = None,
    labels: torch.LongTensor | None = None,
    use_cache: bool | None = None,
    logits_to_keep: int | torch.Tensor = 0,
    **kwargs: Unpack[TransformersKwargs],
) -> MoeCausalLMOutputWithPast:
    outputs: MoeModelOutputWithPast = self.model(
        input_ids=input_ids,
        attention_mask=attention_mask,
        position_ids=position_ids,
        past_key_values=past_key_values,
        inputs_embeds=inputs_embeds,
        use_cache=use_cache,
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
        # Only compute necessary logits, and do not upcast them to float if we are not computing the loss
        hidden_states = slice_logits_to_keep(hidden_states, logits_to_keep)
        logits = self.lm_head(hidden_states)
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)
    # --- Patch.2 ---
    if loss is not None:
        loss = reduce_loss(
            loss,
            kwargs.get("shift_labels", labels),
            num_items_in_batch=kwargs.get("num_items_in_batch"),
            ignore_index=kwargs.get("ignore_index", -100),
        )
    # --- Patch.2 ---

    return MoeCausalLMOutputWithPast(
        loss=loss,
        logits=logits,
        past_key_values=outputs.past_key_values,
        hidden_states=outputs.hidden_states,
        attentions=outputs.attentions,
        router_logits=outputs.router_logits,
    )


config.override_method(
    "DeepseekV3ForSequenceClassification.forward",
    replacement=llama_for_sequence_classification_forward,
    name_map={"Llama": "DeepseekV3"},
    description="Op slot for the loss of sequence classification",
)
config.override_method(
    "DeepseekV3ForCausalLM.get_parallel_plan",
    replacement=qwen3_moe_get_parallel_plan,
    name_map={"Qwen3Moe": "DeepseekV3", "qwen3_moe": "deepseek_v3"},
    description="Expert parallel plan for trainers",
    add=True,
)
