"""Qwen2.5-VL by op slots: what a trainer needs of a model that sees is Qwen2-VL's.

Where nothing is bound, the generated module runs upstream's own lines.

    patchgen zoo.qwen2_5_vl.qwen2_5_vl_gpu_patch_gen_config --diff
"""

from typing import TYPE_CHECKING

import torch
from patchgen import PatchConfig

from zoo.llama.llama_gpu_patch_gen_config import (
    llama_apply_rotary_pos_emb,
    llama_mlp_forward,
    llama_rms_norm_forward,
)
from zoo.qwen2_5_vl.sequence_parallel import qwen2_5_vl_vision_forward
from zoo.qwen2_vl.qwen2_vl_gpu_patch_gen_config import (
    Qwen2VLPositions,
    Qwen2VLVisionMetadata,
    needs_dummy_forward,
    qwen2_vl_get_metadata_collate_func,
    qwen2_vl_get_position_id_func,
    qwen2_vl_vision_dummy_forward,
)
from zoo.qwen2_vl.sequence_parallel import (
    SEQUENCE_PARALLEL,
    qwen2_vl_attention_forward,
    qwen2_vl_text_model_forward,
    qwen2_vl_vision_attention_forward,
)

if TYPE_CHECKING:
    from patchgen_core.runtime.parallel import check_position_ids, reduce_loss, select_features
    from transformers.activations import ACT2FN
    from transformers.modeling_utils import slice_logits_to_keep
    from transformers.vision_utils import get_vision_window_index

    from zoo.qwen2_5_vl.generated.patched_modeling_qwen2_5_vl_gpu import slot_causal_lm_loss, slot_swiglu_mlp

_NAME_MAP = {"Qwen2VL": "Qwen2_5_VL"}

config = PatchConfig(
    source_module="transformers.models.qwen2_5_vl.modeling_qwen2_5_vl",
    target_file="patched_modeling_qwen2_5_vl_gpu.py",
    description="Qwen2.5-VL with op slots for GPU training",
)

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_import("patchgen_core.runtime.parallel", names=list(SEQUENCE_PARALLEL))
config.add_import("transformers.vision_utils", names=["get_vision_cu_seqlens"])
config.add_post_import_block(
    """
    slot_rms_norm = OpSlot("rms_norm", "standard")
    slot_rotary_pos_emb = OpSlot("rotary_pos_emb", "full")
    slot_swiglu_mlp = OpSlot("swiglu_mlp", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    """
)

# With kernels of the hub switched on, these would take the place of what is patched below.
config.drop_decorators("Qwen2_5_VLRMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen2_5_VLAttention", "use_kernelized_func")

# Text and tower have the same class of norm.
config.edit_method(
    "Qwen2_5_VLRMSNorm.forward",
    edit=llama_rms_norm_forward,
    name_map={"Llama": "Qwen2_5_VL"},
    description="Op slot for RMSNorm",
)
config.override_method(
    "Qwen2MLP.forward", replacement=llama_mlp_forward, name_map={"Llama": "Qwen2"}, description="Op slot for SwiGLU"
)
# The positions of the three axes are put together before this function, which rotates whole heads. That of the vision
# tower computes in float32 whatever the dtype is, which no kernel does: it stays upstream's.
config.edit_function(
    "apply_rotary_pos_emb", edit=llama_apply_rotary_pos_emb, description="Op slot for the rotary embedding"
)

config.edit_method(
    "Qwen2_5_VLAttention.forward",
    edit=qwen2_vl_attention_forward,
    name_map=_NAME_MAP,
    description="Sequence parallel attention",
)
config.edit_method(
    "Qwen2_5_VLTextModel.forward",
    edit=qwen2_vl_text_model_forward,
    name_map=_NAME_MAP,
    description="Positions and masks of whole sequences",
)
config.edit_method(
    "Qwen2_5_VLVisionAttention.forward",
    edit=qwen2_vl_vision_attention_forward,
    name_map={"VisionAttention": "Qwen2_5_VLVisionAttention"},
    description="Sequence parallel attention in the vision tower",
)
config.edit_method(
    "Qwen2_5_VisionTransformerPretrainedModel.forward",
    edit=qwen2_5_vl_vision_forward,
    description="The vision tower on slices of the patches",
)

config.add_helper(needs_dummy_forward)
config.add_helper(Qwen2VLVisionMetadata)
config.add_helper_after("Qwen2_5_VLModel", Qwen2VLPositions, name_map=_NAME_MAP)


@config.add_helper
class Qwen2_5_VLVisionMetadata(Qwen2VLVisionMetadata):
    """Qwen2-VL's, and the windows in which most blocks of the tower attend."""

    def of(self, grid_thw: torch.Tensor) -> dict:
        """What the tower takes for pictures or videos of these sizes."""
        config = self.config
        window_index, cu_window_seqlens = get_vision_window_index(
            grid_thw, config.spatial_merge_size, config.window_size, config.patch_size
        )
        return {
            **super().of(grid_thw),
            "window_index": window_index,
            "cu_window_seqlens": cu_window_seqlens,
            "max_window_seqlen": int(cu_window_seqlens.diff().max()),
        }


# ================================================================
# Patch: Qwen2_5_VLMLP.forward
# 1. fused SiLU and product where a kernel is bound
# ================================================================
@config.override_method("Qwen2_5_VLMLP.forward", description="Op slot for SwiGLU in the vision tower")
def qwen2_5_vl_vision_mlp_forward(self, hidden_state):
    # --- Patch.1 ---
    if slot_swiglu_mlp.has_kernel:
        if type(self.act_fn) not in (type(ACT2FN["silu"]), type(ACT2FN["swish"])):
            raise ValueError(f"slot_swiglu_mlp computes SwiGLU, and the activation is {self.act_fn}")
        return self.down_proj(slot_swiglu_mlp(self.gate_proj(hidden_state), self.up_proj(hidden_state)))
    # --- Patch.1 ---
    return self.down_proj(self.act_fn(self.gate_proj(hidden_state)) * self.up_proj(hidden_state))


config.override_method(
    "Qwen2_5_VisionTransformerPretrainedModel.dummy_forward",
    replacement=qwen2_vl_vision_dummy_forward,
    name_map=_NAME_MAP,
    description="The tower on a batch that has no picture",
    add=True,
)


# ================================================================
# Patch: Qwen2_5_VLModel.forward
# 1. the tower runs for pictures and for videos, once each, also where a rank has none of them
# 2. under sequence parallelism positions come from outside, and features go to the placeholders of this rank's slice
# ================================================================
@config.edit_method(
    "Qwen2_5_VLModel.forward", at="if inputs_embeds is None:", description="The vision tower runs on every rank"
)
def qwen2_5_vl_model_forward(self, mm_encoder_outputs):
    ...
    runs_dummy = mm_encoder_outputs is None and needs_dummy_forward(self)


@config.edit_method(
    "Qwen2_5_VLModel.forward", at='image_embeds = torch.cat(mm_encoder_outputs["image"].pooler_output, dim=0).to(...)'
)
def select_picture_features(self, input_ids, inputs_embeds, image_embeds):
    ...
    image_mask, _ = self.get_placeholder_mask(input_ids, inputs_embeds=inputs_embeds)
    image_embeds = select_features(image_embeds, image_mask[..., 0])


@config.edit_method("Qwen2_5_VLModel.forward", at='if mm_encoder_outputs.get("image") is not None:')
def run_without_pictures(self, inputs_embeds, runs_dummy):
    if ...:
        ...
    elif runs_dummy:
        inputs_embeds = inputs_embeds + self.visual.dummy_forward().to(inputs_embeds.device, inputs_embeds.dtype)


@config.edit_method(
    "Qwen2_5_VLModel.forward", at='video_embeds = torch.cat(mm_encoder_outputs["video"].pooler_output, dim=0).to(...)'
)
def select_video_features(self, input_ids, inputs_embeds, video_embeds):
    ...
    _, video_mask = self.get_placeholder_mask(input_ids, inputs_embeds=inputs_embeds)
    video_embeds = select_features(video_embeds, video_mask[..., 0])


@config.edit_method("Qwen2_5_VLModel.forward", at='if mm_encoder_outputs.get("video") is not None:')
def run_without_videos(self, inputs_embeds, runs_dummy):
    if ...:
        ...
    elif runs_dummy:
        inputs_embeds = inputs_embeds + self.visual.dummy_forward().to(inputs_embeds.device, inputs_embeds.dtype)


@config.edit_method("Qwen2_5_VLModel.forward", at="if position_ids is None:")
def check_positions(position_ids, inputs_embeds):
    check_position_ids(position_ids, inputs_embeds)
    ...


# ================================================================
# Patch: Qwen2_5_VLForConditionalGeneration.forward
# 1. fused linear cross entropy where a kernel is bound - no logits are made then
# 2. under sequence parallelism the loss is that of whole sequences
# ================================================================
config.delete_code(
    "Qwen2_5_VLForConditionalGeneration.forward",
    """
    hidden_states = slice_logits_to_keep(...)
    logits = self.lm_head(...)
    """,
    description="Op slot for the loss",
)


@config.edit_method("Qwen2_5_VLForConditionalGeneration.forward", at="if labels is not None:")
def qwen2_5_vl_for_conditional_generation_forward(
    self, labels, logits_to_keep, kwargs, hidden_states, loss, shift_labels
):
    logits = None
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
        hidden_states = slice_logits_to_keep(hidden_states, logits_to_keep)
        logits = self.lm_head(hidden_states)
        ...
    if loss is not None:
        loss = reduce_loss(
            loss,
            kwargs.get("shift_labels", labels),
            num_items_in_batch=kwargs.get("num_items_in_batch"),
            ignore_index=kwargs.get("ignore_index", -100),
        )


config.override_method(
    "Qwen2_5_VLForConditionalGeneration.get_position_id_func",
    replacement=qwen2_vl_get_position_id_func,
    name_map=_NAME_MAP,
    description="Positions for data transforms",
    add=True,
)
config.override_method(
    "Qwen2_5_VLForConditionalGeneration.get_metadata_collate_func",
    replacement=qwen2_vl_get_metadata_collate_func,
    name_map=_NAME_MAP,
    description="Metadata of pictures for collate functions",
    add=True,
)
