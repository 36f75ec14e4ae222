"""Qwen2-VL by op slots, with what a trainer needs of a model that sees: the vision-language models share it.

Where nothing is bound, the generated module runs upstream's own lines.

    patchgen zoo.qwen2_vl.qwen2_vl_gpu_patch_gen_config --diff
"""

from typing import TYPE_CHECKING

import torch
from patchgen import Edits, PatchConfig
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLModel

from zoo.llama.llama_gpu_patch_gen_config import (
    llama_apply_rotary_pos_emb,
    llama_mlp_forward,
    llama_rms_norm_forward,
)
from zoo.qwen2_vl.sequence_parallel import (
    SEQUENCE_PARALLEL,
    qwen2_vl_attention_forward,
    qwen2_vl_text_model_forward,
    qwen2_vl_vision_attention_forward,
    qwen2_vl_vision_forward,
)

if TYPE_CHECKING:
    from patchgen_core.runtime.parallel import check_position_ids, reduce_loss, select_features
    from transformers.modeling_utils import slice_logits_to_keep
    from transformers.vision_utils import get_vision_cu_seqlens, get_vision_position_ids

    from zoo.qwen2_vl.generated.patched_modeling_qwen2_vl_gpu import slot_causal_lm_loss

config = PatchConfig(
    source_module="transformers.models.qwen2_vl.modeling_qwen2_vl",
    target_file="patched_modeling_qwen2_vl_gpu.py",
    description="Qwen2-VL with op slots for GPU training",
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
config.drop_decorators("Qwen2VLRMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen2VLAttention", "use_kernelized_func")

config.edit_method(
    "Qwen2VLRMSNorm.forward",
    edit=llama_rms_norm_forward,
    name_map={"Llama": "Qwen2VL"},
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
    "Qwen2VLAttention.forward",
    edit=qwen2_vl_attention_forward,
    description="Sequence parallel attention",
)
config.edit_method(
    "Qwen2VLTextModel.forward",
    edit=qwen2_vl_text_model_forward,
    description="Positions and masks of whole sequences",
)
config.edit_method(
    "VisionAttention.forward",
    edit=qwen2_vl_vision_attention_forward,
    description="Sequence parallel attention in the vision tower",
)
config.edit_method(
    "Qwen2VisionTransformerPretrainedModel.forward",
    edit=qwen2_vl_vision_forward,
    description="The vision tower on slices of the patches",
)


@config.add_helper
def needs_dummy_forward(model) -> bool:
    """Whether other ranks may wait for this one to run a tower that its own batch has nothing for."""
    return model.training and torch.distributed.is_available() and torch.distributed.is_initialized()


@config.add_helper
class Qwen2VLVisionMetadata:
    """Works out on the host what the vision tower would read back from the device: for a collate function.

    It holds the configuration and no weights, and can be sent to the workers of a data loader.
    """

    def __init__(self, config) -> None:
        self.config = config

    def __call__(self, image_grid_thw=None, video_grid_thw=None) -> dict:
        """Keyword arguments for ``forward``, of grids [pictures, 3] in host memory; leave the grids there too."""
        grids = {"image": image_grid_thw, "video": video_grid_thw}
        return {
            f"{modality}_{name}": value
            for modality, grid_thw in grids.items()
            if grid_thw is not None
            for name, value in self.of(grid_thw).items()
        }

    def of(self, grid_thw: torch.Tensor) -> dict:
        """What the tower takes for pictures or videos of these sizes."""
        return {
            "position_ids": get_vision_position_ids(grid_thw, self.config.spatial_merge_size),
            "cu_seqlens": get_vision_cu_seqlens(grid_thw),
            "max_seqlen": int((grid_thw[:, 1] * grid_thw[:, 2]).max()),
        }


@config.add_helper_after("Qwen2VLModel")
class Qwen2VLPositions:
    """Positions of text, pictures and videos along three axes: for a data transform.

    It holds the configuration and no weights, and can be sent to the workers of a data loader.
    """

    get_vision_position_ids = Qwen2VLModel.get_vision_position_ids
    get_rope_index = Qwen2VLModel.get_rope_index

    def __init__(self, config) -> None:
        self.config = config

    def __call__(self, **inputs) -> dict[str, torch.Tensor]:
        """``position_ids`` [3, batch, sequence] and ``rope_deltas`` [batch, 1] of what ``get_rope_index`` takes."""
        position_ids, rope_deltas = self.get_rope_index(**inputs)
        return {"position_ids": position_ids, "rope_deltas": rope_deltas}


# ================================================================
# Patch: Qwen2VisionTransformerPretrainedModel.dummy_forward
# 1. new - a rank without pictures takes part in what the ranks of a sharded tower exchange
# ================================================================
@config.override_method(
    "Qwen2VisionTransformerPretrainedModel.dummy_forward",
    description="The tower on a batch without pictures",
    add=True,
)
def qwen2_vl_vision_dummy_forward(self) -> torch.Tensor:
    """A zero to which every parameter of the tower contributes, of the smallest picture that it takes."""
    # --- Patch.1 ---
    proj = self.patch_embed.proj
    weight, side = proj.weight, self.config.spatial_merge_size
    grid_thw = torch.tensor([[1, side, side]])
    metadata = Qwen2VLVisionMetadata(self.config).of(grid_thw)
    made = {key: v.to(weight.device) if isinstance(v, torch.Tensor) else v for key, v in metadata.items()}
    # weight.new_zeros would be sharded where the weight is
    size = proj.in_channels * torch.Size(proj.kernel_size).numel()
    pixel_values = torch.zeros(side * side, size, dtype=weight.dtype, device=weight.device)
    output = self(pixel_values, grid_thw=grid_thw, return_dict=True, **made)
    return (output.pooler_output * 0.0).sum()
    # --- Patch.1 ---


# ================================================================
# Patch: Qwen2VLModel.forward
# 1. the tower runs for pictures and for videos, once each, also where a rank has none of them
# 2. under sequence parallelism positions come from outside, and features go to the placeholders of this rank's slice
# ================================================================
qwen2_vl_model_forward = Edits()


@qwen2_vl_model_forward.edit(at="if inputs_embeds is None:")
def call_needs_dummy_forward(self, mm_encoder_outputs):
    ...
    runs_dummy = mm_encoder_outputs is None and needs_dummy_forward(self)


@qwen2_vl_model_forward.edit(at='image_embeds = torch.cat(mm_encoder_outputs["image"].pooler_output, dim=0).to(...)')
def select_picture_features(self, input_ids, inputs_embeds, image_embeds):
    ...
    image_mask, _ = self.get_placeholder_mask(input_ids, inputs_embeds=inputs_embeds)
    image_embeds = select_features(image_embeds, image_mask[..., 0])


@qwen2_vl_model_forward.edit(at='if mm_encoder_outputs.get("image") is not None:')
def run_without_pictures(self, inputs_embeds, runs_dummy):
    if ...:
        ...
    elif runs_dummy:
        inputs_embeds = inputs_embeds + self.visual.dummy_forward().to(inputs_embeds.device, inputs_embeds.dtype)


@qwen2_vl_model_forward.edit(at='video_embeds = torch.cat(mm_encoder_outputs["video"].pooler_output, dim=0).to(...)')
def select_video_features(self, input_ids, inputs_embeds, video_embeds):
    ...
    _, video_mask = self.get_placeholder_mask(input_ids, inputs_embeds=inputs_embeds)
    video_embeds = select_features(video_embeds, video_mask[..., 0])


@qwen2_vl_model_forward.edit(at='if mm_encoder_outputs.get("video") is not None:')
def run_without_videos(self, inputs_embeds, runs_dummy):
    if ...:
        ...
    elif runs_dummy:
        inputs_embeds = inputs_embeds + self.visual.dummy_forward().to(inputs_embeds.device, inputs_embeds.dtype)


@qwen2_vl_model_forward.edit(at="if position_ids is None:")
def check_positions(position_ids, inputs_embeds):
    check_position_ids(position_ids, inputs_embeds)
    ...


config.edit_method(
    "Qwen2VLModel.forward", edit=qwen2_vl_model_forward, description="The vision tower runs on every rank"
)


# ================================================================
# Patch: Qwen2VLForConditionalGeneration.forward
# 1. fused linear cross entropy where a kernel is bound - no logits are made then
# 2. under sequence parallelism the loss is that of whole sequences
# ================================================================
config.delete_code(
    "Qwen2VLForConditionalGeneration.forward",
    """
    hidden_states = slice_logits_to_keep(...)
    logits = self.lm_head(...)
    """,
    description="Op slot for the loss",
)


@config.edit_method("Qwen2VLForConditionalGeneration.forward", at="if labels is not None:")
def qwen2_vl_for_conditional_generation_forward(
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


# ================================================================
# Patch: Qwen2VLForConditionalGeneration.get_position_id_func
# 1. new - positions are made where the data is prepared, before sequences are packed or split over ranks
# ================================================================
@config.override_method(
    "Qwen2VLForConditionalGeneration.get_position_id_func", description="Positions for data transforms", add=True
)
def qwen2_vl_get_position_id_func(self):
    """What makes the positions of a sample; it can be pickled."""
    # --- Patch.1 ---
    return Qwen2VLPositions(self.config)
    # --- Patch.1 ---


# ================================================================
# Patch: Qwen2VLForConditionalGeneration.get_metadata_collate_func
# 1. new - what depends on the sizes of pictures is made on the host, and the tower waits for nothing
# ================================================================
@config.override_method(
    "Qwen2VLForConditionalGeneration.get_metadata_collate_func",
    description="Metadata of pictures for collate functions",
    add=True,
)
def qwen2_vl_get_metadata_collate_func(self):
    """What makes the keyword arguments of ``forward`` that follow from the grids of a batch; it can be pickled."""
    # --- Patch.1 ---
    return Qwen2VLVisionMetadata(self.config.vision_config)
    # --- Patch.1 ---
