"""Replacement for sequence parallelism in Qwen2.5-VL: a vision tower whose patches the ranks share, window by window.

Patches are sliced when they are in the order of windows, and features put back in their own order when all ranks have
them. Text and the tower's attention are as in Qwen2-VL.
"""

from typing import TYPE_CHECKING

import torch
from patchgen import Edits

if TYPE_CHECKING:
    from patchgen_core.runtime.parallel import gather_outputs, pad_cu_seqlens, sp_pad_and_slice, sp_padding

# ================================================================
# Patch: Qwen2_5_VisionTransformerPretrainedModel.forward
# 1. under sequence parallelism each rank works on a slice of the patches in the order of windows -
#    features are those of all patches
# ================================================================
qwen2_5_vl_vision_forward = Edits()
qwen2_5_vl_vision_forward.delete_code("reverse_indices = torch.argsort(...)")


@qwen2_5_vl_vision_forward.edit(at="position_embeddings = tuple(...)")
def qwen2_5_vl_vision_forward_2(
    self, hidden_states, cu_seqlens, max_seqlen, cu_window_seqlens, max_window_seqlen, seq_len, position_embeddings
):
    ...
    padding = sp_padding(seq_len, self.spatial_merge_unit)
    cu_seqlens = pad_cu_seqlens(cu_seqlens, padding)
    cu_window_seqlens = pad_cu_seqlens(cu_window_seqlens, padding)
    max_seqlen = max(max_seqlen, padding) if max_seqlen is not None else None
    max_window_seqlen = max(max_window_seqlen, padding) if max_window_seqlen is not None else None
    hidden_states = sp_pad_and_slice(hidden_states, 0, pad_scale=self.spatial_merge_unit)
    position_embeddings = tuple(
        sp_pad_and_slice(freq, 0, pad_scale=self.spatial_merge_unit) for freq in position_embeddings
    )


@qwen2_5_vl_vision_forward.edit(at="for layer_num, blk in enumerate(self.blocks):")
def qwen2_5_vl_vision_forward_3(window_index):
    ...
    reverse_indices = torch.argsort(window_index)


@qwen2_5_vl_vision_forward.edit(at="merged_hidden_states = self.merger(...)")
def qwen2_5_vl_vision_forward_4(self, seq_len, merged_hidden_states):
    ...
    merged_hidden_states = gather_outputs(merged_hidden_states, 0, 0, seq_len // self.spatial_merge_unit)
