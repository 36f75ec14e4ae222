"""Qwen3-VL by op slots: what a trainer needs of a model that sees is Qwen2-VL's, with the features of DeepStack.

Where nothing is bound, the generated module runs upstream's own lines. Qwen3-VL-MoE imports these patches.

    patchgen zoo.qwen3_vl.qwen3_vl_gpu_patch_gen_config --diff
"""

# The sum of no tensors would be 0.
# pyright: reportReturnType=false

from typing import TYPE_CHECKING

import torch
from patchgen import Edits, PatchConfig
from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLConfig

from zoo.llama.llama_gpu_patch_gen_config import (
    llama_apply_rotary_pos_emb,
    llama_mlp_forward,
    llama_rms_norm_forward,
)
from zoo.qwen2_vl.qwen2_vl_gpu_patch_gen_config import (
    Qwen2VLPositions,
    Qwen2VLVisionMetadata,
    needs_dummy_forward,
    qwen2_vl_get_metadata_collate_func,
    qwen2_vl_get_position_id_func,
)
from zoo.qwen2_vl.sequence_parallel import SEQUENCE_PARALLEL, qwen2_vl_vision_attention_forward
from zoo.qwen3_vl.sequence_parallel import (
    qwen3_vl_text_attention_forward,
    qwen3_vl_text_model_forward,
    qwen3_vl_vision_forward,
)

if TYPE_CHECKING:
    from patchgen_core.runtime.parallel import check_position_ids, reduce_loss, select_features
    from transformers.modeling_utils import slice_logits_to_keep
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextModel, Qwen3VLVisionModel
    from transformers.vision_utils import get_vision_interpolation_indices_and_weights

    from zoo.qwen3_vl.generated.patched_modeling_qwen3_vl_gpu import slot_causal_lm_loss

_NAME_MAP = {"Qwen2VL": "Qwen3VL"}

config = PatchConfig(
    source_module="transformers.models.qwen3_vl.modeling_qwen3_vl",
    target_file="patched_modeling_qwen3_vl_gpu.py",
    description="Qwen3-VL with op slots for GPU training",
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
config.drop_decorators("Qwen3VLTextRMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen3VLTextAttention", "use_kernelized_func")

# The tower has layer norms and an MLP without a gate, which no slot here is for: they stay upstream's.
config.edit_method(
    "Qwen3VLTextRMSNorm.forward",
    edit=llama_rms_norm_forward,
    name_map={"Llama": "Qwen3VLText"},
    description="Op slot for RMSNorm",
)
config.override_method(
    "Qwen3VLTextMLP.forward",
    replacement=llama_mlp_forward,
    name_map={"Llama": "Qwen3VLText"},
    description="Op slot for SwiGLU",
)
# The positions of the three axes are interleaved before this function, which rotates whole heads. That of the vision
# tower computes in float32 whatever the dtype is, which no kernel does: it stays upstream's.
config.edit_function(
    "apply_rotary_pos_emb", edit=llama_apply_rotary_pos_emb, description="Op slot for the rotary embedding"
)

config.edit_method(
    "Qwen3VLTextAttention.forward",
    edit=qwen3_vl_text_attention_forward,
    description="Sequence parallel attention",
)
config.edit_method(
    "Qwen3VLTextModel.forward",
    edit=qwen3_vl_text_model_forward,
    description="Positions and masks of whole sequences",
)
config.edit_method(
    "Qwen3VLVisionAttention.forward",
    edit=qwen2_vl_vision_attention_forward,
    name_map={"VisionAttention": "Qwen3VLVisionAttention"},
    description="Sequence parallel attention in the vision tower",
)
config.edit_method(
    "Qwen3VLVisionModel.forward",
    edit=qwen3_vl_vision_forward,
    description="The vision tower on slices of the patches",
)

config.add_helper(needs_dummy_forward)
config.add_helper(Qwen2VLVisionMetadata)
config.add_helper_after("Qwen3VLModel", Qwen2VLPositions, name_map=_NAME_MAP)


@config.add_helper
class Qwen3VLVisionMetadata(Qwen2VLVisionMetadata):
    """Qwen2-VL's, and what the square of learned positions is interpolated by."""

    def of(self, grid_thw: torch.Tensor) -> dict:
        """What the tower takes for pictures or videos of these sizes."""
        interp_indices, interp_weights = get_vision_interpolation_indices_and_weights(
            grid_thw,
            num_grid_per_side=int(self.config.num_position_embeddings**0.5),
            mode="bilinear",
            align_corners=True,
            spatial_merge_size=self.config.spatial_merge_size,
        )
        return {**super().of(grid_thw), "interp_indices": interp_indices, "interp_weights": interp_weights}


# ================================================================
# Patch: Qwen3VLVisionModel.dummy_forward
# 1. new - a rank without pictures takes part in what the ranks of a sharded tower exchange
# ================================================================
@config.override_method(
    "Qwen3VLVisionModel.dummy_forward", description="The tower on a batch without pictures", add=True
)
def qwen3_vl_vision_dummy_forward(self) -> torch.Tensor:
    """A zero to which every parameter of the tower contributes, of the smallest picture that it takes."""
    # --- Patch.1 ---
    proj = self.patch_embed.proj
    weight, side = proj.weight, self.config.spatial_merge_size
    grid_thw = torch.tensor([[1, side, side]])
    metadata = Qwen3VLVisionMetadata(self.config).of(grid_thw)
    made = {key: v.to(weight.device) if isinstance(v, torch.Tensor) else v for key, v in metadata.items()}
    # weight.new_zeros would be sharded where the weight is
    size = proj.in_channels * torch.Size(proj.kernel_size).numel()
    pixel_values = torch.zeros(side * side, size, dtype=weight.dtype, device=weight.device)
    output = self(pixel_values, grid_thw=grid_thw, return_dict=True, **made)
    # The mergers of DeepStack are only reached by the features that they make.
    return sum((features * 0.0).sum() for features in (output.pooler_output, *output.deepstack_features))
    # --- Patch.1 ---


# ================================================================
# Patch: Qwen3VLModel.__init__
# 1. text model and tower of this module - AutoModel would make upstream's, in which nothing is patched
# ================================================================
@config.override_method("Qwen3VLModel.__init__", description="The patched text model and tower instead of upstream's")
def qwen3_vl_model_init(self, config: Qwen3VLConfig):
    super().__init__(config)
    # --- Patch.1 ---
    self.visual = Qwen3VLVisionModel._from_config(config.vision_config)
    self.language_model = Qwen3VLTextModel._from_config(config.text_config)
    # --- Patch.1 ---
    self.rope_deltas = None  # cache rope_deltas here

    # Initialize weights and apply final processing
    self.post_init()


# ================================================================
# Patch: Qwen3VLModel.forward
# 1. the tower runs for pictures and for videos, once each, also where a rank has none of them
# 2. under sequence parallelism positions come from outside, and features go to the placeholders of this rank's slice
# ================================================================
qwen3_vl_model_forward = Edits()


@qwen3_vl_model_forward.edit(at="video_mask = None")
def call_needs_dummy_forward(self, mm_encoder_outputs):
    ...
    runs_dummy = mm_encoder_outputs is None and needs_dummy_forward(self)


@qwen3_vl_model_forward.edit(at="image_embeds = torch.cat(image_embeds, dim=0).to(...)")
def select_picture_features(self, input_ids, inputs_embeds, image_embeds, deepstack_image_embeds):
    ...
    is_image = self.get_placeholder_mask(input_ids, inputs_embeds=inputs_embeds)[0][..., 0]
    image_embeds = select_features(image_embeds, is_image)
    deepstack_image_embeds = [[select_features(torch.cat(feat, dim=0), is_image)] for feat in deepstack_image_embeds]


@qwen3_vl_model_forward.edit(at='if mm_encoder_outputs.get("image") is not None:')
def run_without_pictures(self, inputs_embeds, runs_dummy):
    if ...:
        ...
    elif runs_dummy:
        inputs_embeds = inputs_embeds + self.visual.dummy_forward().to(inputs_embeds.device, inputs_embeds.dtype)


@qwen3_vl_model_forward.edit(at="video_embeds = torch.cat(video_embeds, dim=0).to(...)")
def select_video_features(self, input_ids, inputs_embeds, video_embeds, deepstack_video_embeds):
    ...
    is_video = self.get_placeholder_mask(input_ids, inputs_embeds=inputs_embeds)[1][..., 0]
    video_embeds = select_features(video_embeds, is_video)
    deepstack_video_embeds = [[select_features(torch.cat(feat, dim=0), is_video)] for feat in deepstack_video_embeds]


@qwen3_vl_model_forward.edit(at='if mm_encoder_outputs.get("video") is not None:')
def run_without_videos(self, inputs_embeds, runs_dummy):
    if ...:
        ...
    elif runs_dummy:
        inputs_embeds = inputs_embeds + self.visual.dummy_forward().to(inputs_embeds.device, inputs_embeds.dtype)


@qwen3_vl_model_forward.edit(at="if image_mask is not None and video_mask is not None:")
def call_check_position_ids(position_ids, inputs_embeds):
    ...
    check_position_ids(position_ids, inputs_embeds)


config.edit_method(
    "Qwen3VLModel.forward", edit=qwen3_vl_model_forward, description="The vision tower runs on every rank"
)


# ================================================================
# Patch: Qwen3VLForConditionalGeneration.forward
# 1. fused linear cross entropy where a kernel is bound - no logits are made then
# 2. under sequence parallelism the loss is that of whole sequences
# ================================================================
config.delete_code(
    "Qwen3VLForConditionalGeneration.forward",
    """
    hidden_states = slice_logits_to_keep(...)
    logits = self.lm_head(...)
    """,
    description="Op slot for the loss",
)


@config.edit_method("Qwen3VLForConditionalGeneration.forward", at="if labels is not None:")
def qwen3_vl_for_conditional_generation_forward(
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
    "Qwen3VLForConditionalGeneration.get_position_id_func",
    replacement=qwen2_vl_get_position_id_func,
    name_map=_NAME_MAP,
    description="Positions for data transforms",
    add=True,
)
config.override_method(
    "Qwen3VLForConditionalGeneration.get_metadata_collate_func",
    replacement=qwen2_vl_get_metadata_collate_func,
    name_map=_NAME_MAP,
    description="Metadata of pictures for collate functions",
    add=True,
)
