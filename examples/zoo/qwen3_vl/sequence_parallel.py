"""Replacements for sequence parallelism in Qwen3-VL: text, and a vision tower whose patches the ranks share.

As in Qwen2-VL, with the features of DeepStack, which come together on every rank as well.
"""

from typing import TYPE_CHECKING

from patchgen import Edits

if TYPE_CHECKING:
    from patchgen_core.runtime.parallel import (
        check_position_ids,
        gather_outputs,
        pad_cu_seqlens,
        sequence_parallel_attention,
        slice_position_embeddings,
        sp_pad_and_slice,
        sp_padding,
    )

# ================================================================
# Patch: Qwen3VLTextAttention.forward
# 1. under sequence parallelism each rank attends with its heads to whole sequences, of which it holds a slice
# ================================================================
qwen3_vl_text_attention_forward = Edits()


@qwen3_vl_text_attention_forward.edit(at="attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(...)")
def call_sequence_parallel_attention(attention_interface):
    ...
    attention_interface = sequence_parallel_attention(attention_interface)


# ================================================================
# Patch: Qwen3VLTextModel.forward
# 1. under sequence parallelism positions and masks are those of whole sequences, the rest is this rank's slice
# ================================================================
qwen3_vl_text_model_forward = Edits()


@qwen3_vl_text_model_forward.edit(at="if inputs_embeds is None:")
def call_check_position_ids(position_ids, inputs_embeds):
    ...
    check_position_ids(position_ids, inputs_embeds)


qwen3_vl_text_model_forward.replace_code(
    "create_causal_mask(..., inputs_embeds=inputs_embeds)",
    "create_causal_mask(..., inputs_embeds=whole_sequence_like(inputs_embeds))",
)


@qwen3_vl_text_model_forward.edit(at="position_embeddings = self.rotary_emb(...)")
def call_slice_position_embeddings(position_embeddings):
    ...
    position_embeddings = slice_position_embeddings(position_embeddings)


# ================================================================
# Patch: Qwen3VLVisionModel.forward
# 1. under sequence parallelism each rank works on a slice of the patches - features are those of all patches
# ================================================================
qwen3_vl_vision_forward = Edits()


@qwen3_vl_vision_forward.edit(at="cu_seqlens, max_seqlen = get_vision_attention_seqlens(...)")
def call_sp_padding(self, hidden_states, interp_indices, interp_weights, position_ids, cu_seqlens, max_seqlen):
    ...
    patches, merge_unit = hidden_states.shape[0], self.spatial_merge_size**2
    padding = sp_padding(patches, merge_unit)
    cu_seqlens = pad_cu_seqlens(cu_seqlens, padding)
    max_seqlen = max(max_seqlen, padding) if max_seqlen is not None else None
    hidden_states = sp_pad_and_slice(hidden_states, 0, pad_scale=merge_unit)
    position_ids = sp_pad_and_slice(position_ids, 0, pad_scale=merge_unit)
    interp_indices = sp_pad_and_slice(interp_indices, 0, pad_scale=merge_unit)
    interp_weights = sp_pad_and_slice(interp_weights, 0, pad_scale=merge_unit)


@qwen3_vl_vision_forward.edit(
    at="deepstack_feature = self.deepstack_merger_list[self.deepstack_visual_indexes.index(layer_num)](...)"
)
def call_gather_outputs(patches, merge_unit, deepstack_feature):
    ...
    deepstack_feature = gather_outputs(deepstack_feature, 0, 0, patches // merge_unit)


@qwen3_vl_vision_forward.edit(at="merged_hidden_states = self.merger(...)")
def qwen3_vl_vision_forward_3(patches, merge_unit, merged_hidden_states):
    ...
    merged_hidden_states = gather_outputs(merged_hidden_states, 0, 0, patches // merge_unit)
