"""Replacement for sequence parallelism in Qwen2.5-Omni: attention in the vision tower, which has no joint projection.

Text and the rest of the vision tower are as in Qwen2.5-VL. The audio tower cuts sounds into chunks, whose number need
not divide by the ranks: every rank runs it on all sounds, and takes the features of the placeholders in its slice.
"""

from typing import TYPE_CHECKING

from patchgen import Edits

if TYPE_CHECKING:
    from patchgen_core.runtime.parallel import gather_heads_scatter_seq, gather_seq_scatter_heads

# ================================================================
# Patch: Qwen2_5OmniVisionAttention.forward
# 1. under sequence parallelism each rank attends with its heads to all patches, of which it holds a slice
# ================================================================
qwen2_5_omni_vision_attention_forward = Edits()


@qwen2_5_omni_vision_attention_forward.edit(at="value_states = value_states.transpose(0, 1).unsqueeze(...)")
def call_gather_seq_scatter_heads(query_states, key_states, value_states):
    ...
    query_states = gather_seq_scatter_heads(query_states, 2, 1)
    key_states = gather_seq_scatter_heads(key_states, 2, 1)
    value_states = gather_seq_scatter_heads(value_states, 2, 1)


@qwen2_5_omni_vision_attention_forward.edit(at="if is_flash_attention_requested(self.config):")
def call_gather_heads_scatter_seq(attn_output):
    ...
    attn_output = gather_heads_scatter_seq(attn_output, 2, 1)
