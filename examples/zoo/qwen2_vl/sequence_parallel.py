"""Replacements for sequence parallelism in Qwen2-VL: text, and a vision tower whose patches the ranks share.

Each rank has a slice of the tokens and, whatever belongs to them, a slice of the patches. The features of all patches
come together on every rank, which takes those of the placeholders in its slice. The tower's heads divide by the ranks.
Qwen2.5-VL shares these replacements, and Qwen3-VL that of attention in the tower.
"""

from typing import TYPE_CHECKING

from patchgen import Edits

if TYPE_CHECKING:
    from patchgen_core.runtime.parallel import (
        check_position_ids,
        gather_heads_scatter_seq,
        gather_outputs,
        gather_seq_scatter_heads,
        pad_cu_seqlens,
        sequence_parallel_attention,
        slice_position_embeddings,
        sp_pad_and_slice,
        sp_padding,
    )

SEQUENCE_PARALLEL = (
    "check_position_ids",
    "gather_heads_scatter_seq",
    "gather_outputs",
    "gather_seq_scatter_heads",
    "pad_cu_seqlens",
    "reduce_loss",
    "select_features",
    "sequence_parallel_attention",
    "slice_position_embeddings",
    "sp_pad_and_slice",
    "sp_padding",
    "whole_sequence_like",
)
"""What the patches for sequence parallelism call, of ``patchgen_core.runtime.parallel``."""


# ================================================================
# Patch: Qwen2VLAttention.forward
# 1. under sequence parallelism each rank attends with its heads to whole sequences, of which it holds a slice
# ================================================================
qwen2_vl_attention_forward = Edits()


@qwen2_vl_attention_forward.edit(at="attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(...)")
def call_sequence_parallel_attention(attention_interface):
    ...
    attention_interface = sequence_parallel_attention(attention_interface)


# ================================================================
# Patch: Qwen2VLTextModel.forward
# 1. under sequence parallelism positions and masks are those of whole sequences, the rest is this rank's slice
# ================================================================
qwen2_vl_text_model_forward = Edits()


@qwen2_vl_text_model_forward.edit(at="if inputs_embeds is None:")
def call_check_position_ids(position_ids, inputs_embeds):
    ...
    check_position_ids(position_ids, inputs_embeds)


qwen2_vl_text_model_forward.replace_code(
    '"inputs_embeds": inputs_embeds',
    '"inputs_embeds": whole_sequence_like(inputs_embeds)',
)


@qwen2_vl_text_model_forward.edit(at="position_embeddings = self.rotary_emb(...)")
def call_slice_position_embeddings(position_embeddings):
    ...
    position_embeddings = slice_position_embeddings(position_embeddings)


# ================================================================
# Patch: VisionAttention.forward
# 1. under sequence parallelism each rank attends with its heads to all patches, of which it holds a slice
# ================================================================
qwen2_vl_vision_attention_forward = Edits()


@qwen2_vl_vision_attention_forward.edit(at="value_states = value_states.transpose(0, 1).unsqueeze(...)")
def call_gather_seq_scatter_heads(query_states, key_states, value_states):
    ...
    query_states = gather_seq_scatter_heads(query_states, 2, 1)
    key_states = gather_seq_scatter_heads(key_states, 2, 1)
    value_states = gather_seq_scatter_heads(value_states, 2, 1)


@qwen2_vl_vision_attention_forward.edit(at="if is_flash_attention_requested(self.config):")
def call_gather_heads_scatter_seq(attn_output):
    ...
    attn_output = gather_heads_scatter_seq(attn_output, 2, 1)


# ================================================================
# Patch: Qwen2VisionTransformerPretrainedModel.forward
# 1. under sequence parallelism each rank works on a slice of the patches - features are those of all patches
# ================================================================
qwen2_vl_vision_forward = Edits()


@qwen2_vl_vision_forward.edit(at="cu_seqlens, max_seqlen = get_vision_attention_seqlens(...)")
def call_sp_padding(self, hidden_states, position_ids, cu_seqlens, max_seqlen):
    ...
    patches, merge_unit = hidden_states.shape[0], self.spatial_merge_size**2
    padding = sp_padding(patches, merge_unit)
    cu_seqlens = pad_cu_seqlens(cu_seqlens, padding)
    max_seqlen = max(max_seqlen, padding) if max_seqlen is not None else None
    hidden_states = sp_pad_and_slice(hidden_states, 0, pad_scale=merge_unit)
    position_ids = sp_pad_and_slice(position_ids, 0, pad_scale=merge_unit)


@qwen2_vl_vision_forward.edit(at="merged_hidden_states = self.merger(...)")
def call_gather_outputs(patches, merge_unit, merged_hidden_states):
    ...
    merged_hidden_states = gather_outputs(merged_hidden_states, 0, 0, patches // merge_unit)
