"""Replacement for sequence parallelism in Qwen2.5-VL: a vision tower whose patches the ranks share, window by window.

Patches are sliced when they are in the order of windows, and features put back in their own order when all ranks have
them. Text and the tower's attention are as in Qwen2-VL.
"""

import torch
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs


# ================================================================
# Patch: Qwen2_5_VisionTransformerPretrainedModel.forward
# 1. under sequence parallelism each rank works on a slice of the patches in the order of windows -
#    features are those of all patches
# ================================================================
def qwen2_5_vl_vision_forward(
    self, hidden_states: torch.Tensor, grid_thw: torch.Tensor, **kwargs: Unpack[TransformersKwargs]
) -> tuple | BaseModelOutputWithPooling:
    """
    Args:
        hidden_states (`torch.Tensor` of shape `(seq_len, hidden_size)`):
            The final hidden states of the model.
        grid_thw (`torch.Tensor` of shape `(num_images_or_videos, 3)`):
            The temporal, height and width of feature shape of each image in LLM.

    Returns:
        `torch.Tensor`: hidden_states.
    """
    position_ids = get_vision_position_ids(grid_thw, self.spatial_merge_size, kwargs=kwargs)
    cu_seqlens, max_seqlen = get_vision_attention_seqlens(grid_thw, self.config, kwargs=kwargs)
    window_index, cu_window_seqlens = get_vision_window_index(
        grid_thw,
        spatial_merge_size=self.spatial_merge_size,
        window_size=self.window_size,
        patch_size=self.patch_size,
        kwargs=kwargs,
    )
    max_window_seqlen = get_max_seqlen(cu_window_seqlens, self.config, kwargs=kwargs, kwarg_name="max_window_seqlen")

    hidden_states = self.patch_embed(hidden_states)

    seq_len, _ = hidden_states.size()
    hidden_states = self.permute_input_for_window_attn(hidden_states, window_index, seq_len=seq_len)

    position_embeddings = self.rotary_pos_emb(hidden_states, position_ids)
    position_embeddings = tuple(
        self.permute_input_for_window_attn(freq, window_index, seq_len=seq_len) for freq in position_embeddings
    )

    # --- Patch.1 ---
    padding = sp_padding(seq_len, self.spatial_merge_unit)
    cu_seqlens = pad_cu_seqlens(cu_seqlens, padding)
    cu_window_seqlens = pad_cu_seqlens(cu_window_seqlens, padding)
    max_seqlen = max(max_seqlen, padding) if max_seqlen is not None else None
    max_window_seqlen = max(max_window_seqlen, padding) if max_window_seqlen is not None else None
    hidden_states = sp_pad_and_slice(hidden_states, 0, pad_scale=self.spatial_merge_unit)
    position_embeddings = tuple(
        sp_pad_and_slice(freq, 0, pad_scale=self.spatial_merge_unit) for freq in position_embeddings
    )
    # --- Patch.1 ---

    for layer_num, blk in enumerate(self.blocks):
        if layer_num in self.fullatt_block_indexes:
            cu_seqlens_now = cu_seqlens
            max_seqlen_now = max_seqlen
        else:
            cu_seqlens_now = cu_window_seqlens
            max_seqlen_now = max_window_seqlen

        hidden_states = blk(
            hidden_states,
            cu_seqlens=cu_seqlens_now,
            max_seqlen=max_seqlen_now,
            position_embeddings=position_embeddings,
            **kwargs,
        )

    reverse_indices = torch.argsort(window_index)
    merged_hidden_states = self.merger(hidden_states)
    # --- Patch.1 ---
    merged_hidden_states = gather_outputs(merged_hidden_states, 0, 0, seq_len // self.spatial_merge_unit)
    # --- Patch.1 ---
    merged_hidden_states = merged_hidden_states[reverse_indices, :]

    return BaseModelOutputWithPooling(
        last_hidden_state=hidden_states,
        pooler_output=merged_hidden_states,
    )
