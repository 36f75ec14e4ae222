"""GLM-MoE-DSA by op slots: DeepSeek-V3's parts, and so its patches. Ranks may share its sequences.

Where nothing is bound, the generated module runs upstream's own lines. An indexer chooses for each token which others
it attends to. Under sequence parallelism each rank's indexer compares its own tokens with those of the whole sequence,
whose keys it gathers, one small vector for each token; what all ranks have chosen then makes the mask of the whole.

    patchgen zoo.glm_moe_dsa.glm_moe_dsa_gpu_patch_gen_config --diff
"""

import torch
from patchgen import PatchConfig
from transformers.modeling_flash_attention_utils import FlashAttentionKwargs
from transformers.modeling_outputs import MoeModelOutputWithPast
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs

from zoo.deepseek_v3.deepseek_v3_gpu_patch_gen_config import deepseek_v3_for_causal_lm_forward
from zoo.llama.llama_gpu_patch_gen_config import SEQUENCE_PARALLEL, llama_mlp_forward, llama_rms_norm_forward
from zoo.qwen3_moe.qwen3_moe_gpu_patch_gen_config import qwen3_moe_experts_forward, qwen3_moe_get_parallel_plan

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
    "GlmMoeDsaExperts.forward",
    replacement=qwen3_moe_experts_forward,
    name_map={"Qwen3Moe": "GlmMoeDsa"},
    description="Op slot for the experts",
)


# ================================================================
# Patch: GlmMoeDsaIndexer.forward
# 1. under sequence parallelism the tokens of a slice are compared with those of the whole sequence
# ================================================================
@config.override_method("GlmMoeDsaIndexer.forward", description="Slices choose among whole sequences")
@torch.no_grad()
def glm_moe_dsa_indexer_forward(
    self,
    hidden_states: torch.Tensor,
    q_resid: torch.Tensor,
    position_embeddings: tuple[torch.Tensor, torch.Tensor],
    attention_mask: torch.Tensor,
    position_ids: torch.Tensor,  # Kept for BC
    past_key_values: Cache | None = None,
) -> torch.Tensor:
    """
    Selects the top-k tokens per query for DeepSeek Sparse Attention (DSA).

    Same as [`DeepseekV32Indexer.forward`], but the indexer applies **interleaved** RoPE
    rather than the non-interleaved half-split RoPE used by DeepSeek-V3.2.

    Args:
        hidden_states: Input hidden states `[B, S, hidden_size]`.
        q_resid: Query residual from `q_a_layernorm(q_a_proj(x))`, shape `[B, S, q_lora_rank]`.
        position_embeddings: `(cos, sin)` from RotaryEmbedding.
        attention_mask: Causal mask, broadcastable to `[B, S, T]`.
        past_key_values: Cache object containing the indexer key cache for this layer.

    Returns:
        `torch.Tensor`: the `int32` top-k token indices of shape `[B, S, topk]`. The eager / SDPA paths
            turn these into an additive sparse mask; the `flash-mla` kernel consumes them directly.
    """
    batch_size, seq_len, _ = hidden_states.shape
    cos, sin = position_embeddings
    q = self.wq_b(q_resid)  # [B, S, H*D]
    q = q.view(batch_size, seq_len, self.n_heads, self.head_dim)  # [B, S, H, D]
    q_rot, q_pass = torch.split(q, [self.qk_rope_head_dim, self.head_dim - self.qk_rope_head_dim], dim=-1)

    k = self.k_norm(self.wk(hidden_states)).unsqueeze(2)  # [B, S, 1, D]
    k_rot, k_pass = torch.split(k, [self.qk_rope_head_dim, self.head_dim - self.qk_rope_head_dim], dim=-1)

    # GLM-MoE-DSA uses interleaved RoPE in the indexer
    q_rot, k_rot = apply_rotary_pos_emb_interleave(q_rot, k_rot, cos, sin, unsqueeze_dim=2)
    q = torch.cat([q_rot, q_pass], dim=-1)  # [B, S, H, D]
    k = torch.cat([k_rot, k_pass], dim=-1).squeeze(2)  # [B, S, D]
    # --- Patch.1 ---
    k = gather_outputs(k, 1)
    attention_mask = slice_input_tensor(attention_mask, 1, padding=False)
    # --- Patch.1 ---

    if past_key_values is not None:
        k = past_key_values.update_indexer(k, self.layer_idx)

    scores = torch.matmul(q.float(), k.transpose(-1, -2).float().unsqueeze(1)) * self.softmax_scale
    scores = F.relu(scores)

    # Weight per head and sum across heads: [B, S, 1, H] @ [B, S, H, T] → [B, S, T]
    weights = self.weights_proj(hidden_states.to(self.weights_proj.weight.dtype)).float() * (self.n_heads**-0.5)
    index_scores = torch.matmul(weights.unsqueeze(-2), scores).squeeze(-2)

    # Causality needs to be taken into account when computing scores so padding tokens don't affect computation
    if attention_mask.dtype == torch.bool:
        index_scores = index_scores.masked_fill(~attention_mask, float("-inf"))
    else:
        index_scores = index_scores + attention_mask

    topk = min(self.index_topk, index_scores.shape[-1])
    # --- Patch.1 ---
    return gather_outputs(index_scores.topk(topk, dim=-1).indices.to(torch.int32), 1)  # [B, S, topk]
    # --- Patch.1 ---


# ================================================================
# Patch: GlmMoeDsaAttention.forward
# 1. under sequence parallelism each rank attends with its heads to whole sequences, of which it holds a slice
# 2. the tokens that were chosen are those of whole sequences, and so is the mask that they make
# ================================================================
@config.override_method("GlmMoeDsaAttention.forward", description="Sequence parallel attention")
def glm_moe_dsa_attention_forward(
    self,
    hidden_states: torch.Tensor,
    position_embeddings: tuple[torch.Tensor, torch.Tensor],
    attention_mask: torch.Tensor,
    past_key_values: Cache | None = None,
    position_ids: torch.Tensor | None = None,
    prev_topk_indices: torch.Tensor | None = None,
    **kwargs: Unpack[FlashAttentionKwargs],
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    batch_size, seq_length = hidden_states.shape[:-1]
    query_shape = (batch_size, seq_length, -1, self.qk_head_dim)

    q_resid = self.q_a_layernorm(self.q_a_proj(hidden_states))
    q_states = self.q_b_proj(q_resid).view(query_shape).transpose(1, 2)
    q_pass, q_rot = torch.split(q_states, [self.qk_nope_head_dim, self.qk_rope_head_dim], dim=-1)

    compressed_kv = self.kv_a_proj_with_mqa(hidden_states)
    kv_pass, k_rot = torch.split(compressed_kv, [self.kv_lora_rank, self.qk_rope_head_dim], dim=-1)
    # Both latents are viewed as single-head, 4D tensors, as expected by `expand_kv`
    k_pass = self.kv_a_layernorm(kv_pass).view(batch_size, 1, seq_length, self.kv_lora_rank)

    k_rot = k_rot.view(batch_size, 1, seq_length, self.qk_rope_head_dim)
    cos, sin = position_embeddings
    q_rot, k_rot = apply_rotary_pos_emb_interleave(q_rot, k_rot, cos, sin)

    # Cache read / write is performed while latent KV is still compressed
    if past_key_values is not None:
        k_pass, k_rot = past_key_values.update(k_pass, k_rot, self.layer_idx)

    query_states = torch.cat((q_pass, q_rot), dim=-1)

    key_states, value_states = self.expand_kv(k_pass, k_rot)

    # DSA: select this layer's top-k tokens, or reuse the previous full layer's on `"shared"` layers.
    if self.indexer is not None:
        topk_indices = self.indexer(
            hidden_states,
            q_resid,
            position_embeddings,
            attention_mask[:, 0, :, :],
            position_ids,  # Kept for BC
            past_key_values=past_key_values,
        )  # [B, S, topk]
    else:
        if prev_topk_indices is None:
            raise ValueError("Shared DSA layers require top-k indices from a previous full indexer layer.")
        topk_indices = prev_topk_indices

    sparse_indices = None
    if self.config._attn_implementation in ("eager", "sdpa"):
        index_mask = (
            # --- Patch.2 ---
            topk_indices.new_ones((*topk_indices.shape[:2], attention_mask.shape[-1]), dtype=torch.bool)
            # --- Patch.2 ---
            .scatter(-1, topk_indices.long(), False)
            .unsqueeze(1)
        )

        if attention_mask.dtype == torch.bool:
            attention_mask = attention_mask & ~index_mask
        else:
            attention_mask = attention_mask.masked_fill(index_mask, torch.finfo(hidden_states.dtype).min)
    else:
        sparse_indices = topk_indices

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
        indices=sparse_indices,  # consumed by flash_mla_with_kvcache; ignored by eager / SDPA
        **kwargs,
    )

    attn_output = attn_output.reshape(batch_size, seq_length, -1).contiguous()
    attn_output = self.o_proj(attn_output)
    return attn_output, attn_weights, topk_indices


# ================================================================
# Patch: GlmMoeDsaModel.forward
# 1. under sequence parallelism positions and masks are those of whole sequences, the rest is this rank's slice
# ================================================================
@config.override_method("GlmMoeDsaModel.forward", description="Positions and masks of whole sequences")
def glm_moe_dsa_model_forward(
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

    if inputs_embeds is None:
        inputs_embeds: torch.Tensor = self.embed_tokens(input_ids)

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
        mask_kwargs = {
            "config": self.config,
            # --- Patch.1 ---
            "inputs_embeds": whole_sequence_like(inputs_embeds),
            # --- Patch.1 ---
            "attention_mask": attention_mask,
            "past_key_values": past_key_values,
            "position_ids": position_ids,
            "allow_is_causal_skip": False,  # Always force creation to account for causality in the indexer
        }
        causal_mask_mapping = {"indexed_attention": create_causal_mask(**mask_kwargs)}

    hidden_states = inputs_embeds
    position_embeddings = self.rotary_emb(hidden_states, position_ids=position_ids)
    # --- Patch.1 ---
    position_embeddings = slice_position_embeddings(position_embeddings)
    # --- Patch.1 ---

    topk_indices = None  # MAIN DIFF with DSV3.2
    for i, decoder_layer in enumerate(self.layers[: self.config.num_hidden_layers]):
        hidden_states, topk_indices = decoder_layer(
            hidden_states,
            attention_mask=causal_mask_mapping["indexed_attention"],
            position_embeddings=position_embeddings,
            position_ids=position_ids,
            past_key_values=past_key_values,
            use_cache=use_cache,
            prev_topk_indices=topk_indices,  # MAIN DIFF with DSV3.2
            **kwargs,
        )

    hidden_states = self.norm(hidden_states)
    return MoeModelOutputWithPast(
        last_hidden_state=hidden_states,
        past_key_values=past_key_values,
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
