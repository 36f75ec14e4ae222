"""Replacement for sequence parallelism in Qwen2.5-Omni: attention in the vision tower, which has no joint projection.

Text and the rest of the vision tower are as in Qwen2.5-VL. The audio tower cuts sounds into chunks, whose number need
not divide by the ranks: every rank runs it on all sounds, and takes the features of the placeholders in its slice.
"""

import torch


# ================================================================
# Patch: Qwen2_5OmniVisionAttention.forward
# 1. under sequence parallelism each rank attends with its heads to all patches, of which it holds a slice
# ================================================================
def qwen2_5_omni_vision_attention_forward(
    self,
    hidden_states: torch.Tensor,
    cu_seqlens: torch.Tensor,
    position_embeddings: torch.Tensor | None = None,
    max_seqlen: int | None = None,
    **kwargs,
) -> torch.Tensor:
    seq_length = hidden_states.shape[0]
    query_states = self.q(hidden_states).reshape(seq_length, self.num_heads, -1)
    key_states = self.k(hidden_states).reshape(seq_length, self.num_heads, -1)
    value_states = self.v(hidden_states).reshape(seq_length, self.num_heads, -1)

    cos, sin = position_embeddings
    query_states, key_states = apply_rotary_pos_emb_vision(query_states, key_states, cos, sin)

    query_states = query_states.transpose(0, 1).unsqueeze(0)
    key_states = key_states.transpose(0, 1).unsqueeze(0)
    value_states = value_states.transpose(0, 1).unsqueeze(0)
    # --- Patch.1 ---
    query_states = gather_seq_scatter_heads(query_states, 2, 1)
    key_states = gather_seq_scatter_heads(key_states, 2, 1)
    value_states = gather_seq_scatter_heads(value_states, 2, 1)
    # --- Patch.1 ---

    attention_interface: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
        self.config._attn_implementation, eager_attention_forward
    )

    if is_flash_attention_requested(self.config):
        # Flash Attention 2: Use cu_seqlens for variable length attention
        max_seqlen = get_max_seqlen(cu_seqlens, self.config, kwargs={"max_seqlen": max_seqlen})
        attn_output, _ = attention_interface(
            self,
            query_states,
            key_states,
            value_states,
            attention_mask=None,
            scaling=self.scaling,
            dropout=0.0 if not self.training else self.attention_dropout,
            cu_seq_lens_q=cu_seqlens,
            cu_seq_lens_k=cu_seqlens,
            max_length_q=max_seqlen,
            max_length_k=max_seqlen,
            is_causal=False,
            **kwargs,
        )
    else:
        # Other implementations: Process each chunk separately
        lengths = cu_seqlens[1:] - cu_seqlens[:-1]
        splits = [torch.split(tensor, lengths.tolist(), dim=2) for tensor in (query_states, key_states, value_states)]

        attn_outputs = [
            attention_interface(
                self,
                q,
                k,
                v,
                attention_mask=None,
                scaling=self.scaling,
                dropout=0.0 if not self.training else self.attention_dropout,
                is_causal=False,
                **kwargs,
            )[0]
            for q, k, v in zip(*splits)
        ]
        attn_output = torch.cat(attn_outputs, dim=1)

    # --- Patch.1 ---
    attn_output = gather_heads_scatter_seq(attn_output, 2, 1)
    # --- Patch.1 ---
    attn_output = attn_output.reshape(seq_length, -1).contiguous()
    attn_output = self.proj(attn_output)
    return attn_output
