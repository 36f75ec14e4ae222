"""Mistakes that people make in vision towers whose patches the ranks share, and in filling features into slices."""

from __future__ import annotations

from tests.sharded.defects import Defect
from tests.sharded.sharded_runs import VIDEO

_GATHER = "        merged_hidden_states = gather_outputs(merged_hidden_states, 0, 0, patches // merge_unit)\n"
_PATCHES = "        hidden_states = sp_pad_and_slice(hidden_states, 0, pad_scale=merge_unit)\n"
_POSITIONS = "        position_ids = sp_pad_and_slice(position_ids, 0, pad_scale=merge_unit)\n"
_ENDS = "        cu_seqlens = pad_cu_seqlens(cu_seqlens, padding)\n"
_LENGTHS = "            lengths = cu_seqlens[1:] - cu_seqlens[:-1]\n"
_FEATURES = "            image_embeds = select_features(image_embeds, image_mask[..., 0])\n"
_MAKES = "        if position_ids is None:\n            position_ids = self.compute_3d_position_ids(\n"
_CHECK = f"        check_position_ids(position_ids, inputs_embeds)\n{_MAKES}"
_RUNS_TOWER = '        if mm_encoder_outputs.get("image") is None and pixel_values is not None:\n'
_LAYER = "            if deepstack_visual_embeds is not None and layer_idx in range(len(deepstack_visual_embeds)):\n"
_DEEP = "                deepstack_feature = gather_outputs(deepstack_feature, 0, 0, patches // merge_unit)\n"
_WINDOWS = "        merged_hidden_states = merged_hidden_states[reverse_indices, :]\n"
_TEXT = "The first output that differs is from 'model.language_model.layers.0.input_layernorm' "
_SPLIT = "RuntimeError: split_with_sizes expects split_sizes to sum exactly to "

TOWERS = {
    "features of the slice": Defect(
        "qwen2_vl", "sp2", _GATHER, "        pass\n", (_SPLIT, "in get_image_features"), "Qwen2VLModel.forward"
    ),
    "features of the padding": Defect(
        "qwen2_vl",
        "sp2",
        _GATHER,
        "        merged_hidden_states = gather_outputs(merged_hidden_states, 0)\n",
        (f"{_SPLIT}4 (input tensor's size at dimension 0), but got split_sizes=[3]", "in get_image_features"),
        "Qwen2VLModel.forward",
        batches=(VIDEO,),
    ),
    "features not selected": Defect(
        "qwen2_vl",
        "sp2",
        _FEATURES,
        "            pass\n",
        ("fails: ValueError: Image features and image tokens do not match", "in get_placeholder_mask"),
        "Qwen2VLModel.forward",
    ),
    "features of the first placeholders": Defect(
        "qwen2_vl",
        "sp2",
        _FEATURES,
        "            image_embeds = image_embeds[: image_mask.sum()]\n",
        ("logits of 'pictures' on rank 1", _TEXT),
        "Qwen2VLModel.forward",
    ),
    "features in the order of windows": Defect(
        "qwen2_5_vl",
        "sp2",
        _WINDOWS,
        "",
        ("logits of 'pictures'", _TEXT),
        "Qwen2_5_VisionTransformerPretrainedModel.forward",
    ),
    "ends of the slice": Defect(
        "qwen2_vl",
        "sp2",
        _LENGTHS,
        f"            cu_seqlens = cu_seqlens.clamp(max=seq_length)\n{_LENGTHS}",
        (f"{_SPLIT}40", "torch.split(tensor, lengths.tolist(), dim=2)"),
        "VisionAttention.forward",
    ),
    "no end of the padding": Defect(
        "qwen2_vl",
        "sp2",
        _ENDS,
        "",
        (f"{_SPLIT}8", "torch.split(tensor, lengths.tolist(), dim=2)"),
        "VisionAttention.forward",
    ),
    "pictures that see each other": Defect(
        "qwen2_vl",
        "sp2",
        _ENDS,
        f"        cu_seqlens = cu_seqlens[[0, -1]]\n{_ENDS}",
        ("logits of 'pictures' on rank", "is from 'model.visual.blocks.0.attn.proj' (Linear)"),
        "VisionAttention.forward",
    ),
    "positions of the first patches": Defect(
        "qwen2_vl",
        "sp2",
        _POSITIONS,
        "        position_ids = position_ids[: hidden_states.shape[0]]\n",
        ("logits of 'pictures' on rank 1", "is from 'model.visual.rotary_pos_emb' (Qwen2VLVisionRotaryEmbedding)"),
        "Qwen2VisionTransformerPretrainedModel.forward",
    ),
    "patches that are merged on two ranks": Defect(
        "qwen2_vl",
        "sp2",
        _PATCHES,
        "        hidden_states = sp_pad_and_slice(hidden_states, 0, pad_scale=3)\n",
        ("The size of tensor a (21) must match the size of tensor b (20)", "in apply_rotary_pos_emb_vision"),
        "VisionAttention.forward",
    ),
    "positions made of the slice": Defect(
        "qwen2_vl",
        "sp2",
        _CHECK,
        f"        position_ids = None\n{_MAKES}",
        ("fails: IndexError: The shape of the mask [16]", "in compute_3d_position_ids"),
        "Qwen2VLModel.forward",
    ),
    "tower only where the slice has a placeholder": Defect(
        "qwen2_vl",
        "sp2",
        _RUNS_TOWER,
        "        if not (input_ids == self.config.image_token_id).any():\n            pixel_values = None\n"
        + _RUNS_TOWER,
        ("Qwen2VLForConditionalGeneration", "on 2 ranks", "in forward"),
        "",
        10,
        (VIDEO,),
    ),
    "deepstack of the slice": Defect(
        "qwen3_vl", "sp2", _DEEP, "                pass\n", (_SPLIT, "in get_image_features"), "Qwen3VLModel.forward"
    ),
    "deepstack dropped on one rank": Defect(
        "qwen3_vl",
        "sp2",
        _LAYER,
        f"            if get_parallel_state().sp_rank == 1:\n                deepstack_visual_embeds = None\n{_LAYER}",
        (
            "training Qwen3VLForConditionalGeneration on 2 ranks takes over 10 s",
            "rank 0 is in all_gather_into_tensor_backward",
        ),
        "",
        10,
    ),
}
