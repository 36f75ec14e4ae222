"""Qwen3-VL by op slots: what a trainer needs of a model that sees is Qwen2-VL's, with the features of DeepStack.

Where nothing is bound, the generated module runs upstream's own lines. Qwen3-VL-MoE imports these patches.

    patchgen zoo.qwen3_vl.qwen3_vl_gpu_patch_gen_config --diff
"""

import torch
from patchgen import PatchConfig
from transformers.modeling_outputs import (
    BaseModelOutputWithPast,
    BaseModelOutputWithPooling,
    CausalLMOutputWithPast,
)
from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLConfig
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs

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
config.override_method(
    "Qwen3VLTextRMSNorm.forward",
    replacement=llama_rms_norm_forward,
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
config.replace_function(
    "apply_rotary_pos_emb", replacement=llama_apply_rotary_pos_emb, description="Op slot for the rotary embedding"
)

config.override_method(
    "Qwen3VLTextAttention.forward",
    replacement=qwen3_vl_text_attention_forward,
    description="Sequence parallel attention",
)
config.override_method(
    "Qwen3VLTextModel.forward",
    replacement=qwen3_vl_text_model_forward,
    description="Positions and masks of whole sequences",
)
config.override_method(
    "Qwen3VLVisionAttention.forward",
    replacement=qwen2_vl_vision_attention_forward,
    name_map={"VisionAttention": "Qwen3VLVisionAttention"},
    description="Sequence parallel attention in the vision tower",
)
config.override_method(
    "Qwen3VLVisionModel.forward",
    replacement=qwen3_vl_vision_forward,
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
@config.override_method("Qwen3VLModel.forward", description="The vision tower runs on every rank")
def qwen3_vl_model_forward(
    self,
    input_ids: torch.LongTensor = None,
    attention_mask: torch.Tensor | None = None,
    position_ids: torch.LongTensor | None = None,
    past_key_values: Cache | None = None,
    inputs_embeds: torch.Tensor | None = None,
    pixel_values: torch.Tensor | None = None,
    pixel_values_videos: torch.Tensor | None = None,
    image_grid_thw: torch.LongTensor | None = None,
    video_grid_thw: torch.LongTensor | None = None,
    mm_token_type_ids: torch.IntTensor | None = None,
    mm_encoder_outputs: dict[str, BaseModelOutputWithPooling] | None = None,
    **kwargs: Unpack[TransformersKwargs],
) -> tuple | BaseModelOutputWithPast:
    if (input_ids is None) ^ (inputs_embeds is not None):
        raise ValueError("You must specify exactly one of input_ids or inputs_embeds")

    if (pixel_values is not None or pixel_values_videos is not None) and mm_encoder_outputs is not None:
        raise ValueError(
            "You cannot specify both pixel_values/pixel_values_videos and mm_encoder_outputs at the same time"
        )

    if inputs_embeds is None:
        inputs_embeds = self.get_input_embeddings()(input_ids)

    image_mask = None
    video_mask = None

    # --- Patch.1 ---
    runs_dummy = mm_encoder_outputs is None and needs_dummy_forward(self)
    # --- Patch.1 ---
    mm_encoder_outputs = mm_encoder_outputs if mm_encoder_outputs is not None else {}
    if mm_encoder_outputs.get("image") is None and pixel_values is not None:
        mm_encoder_outputs["image"]: BaseModelOutputWithDeepstackFeatures = self.get_image_features(
            pixel_values, image_grid_thw, return_dict=True, **kwargs
        )

    if mm_encoder_outputs.get("video") is None and pixel_values_videos is not None:
        mm_encoder_outputs["video"]: BaseModelOutputWithDeepstackFeatures = self.get_video_features(
            pixel_values_videos, video_grid_thw, return_dict=True, **kwargs
        )

    if mm_encoder_outputs.get("image") is not None:
        image_embeds = mm_encoder_outputs["image"].pooler_output
        deepstack_image_embeds = mm_encoder_outputs["image"].deepstack_features
        image_embeds = torch.cat(image_embeds, dim=0).to(inputs_embeds.device, inputs_embeds.dtype)
        # --- Patch.2 ---
        is_image = self.get_placeholder_mask(input_ids, inputs_embeds=inputs_embeds)[0][..., 0]
        image_embeds = select_features(image_embeds, is_image)
        deepstack_image_embeds = [
            [select_features(torch.cat(feat, dim=0), is_image)] for feat in deepstack_image_embeds
        ]
        # --- Patch.2 ---
        image_mask, _ = self.get_placeholder_mask(input_ids, inputs_embeds=inputs_embeds, image_features=image_embeds)
        inputs_embeds = inputs_embeds.masked_scatter(image_mask, image_embeds)
    # --- Patch.1 ---
    elif runs_dummy:
        inputs_embeds = inputs_embeds + self.visual.dummy_forward().to(inputs_embeds.device, inputs_embeds.dtype)
    # --- Patch.1 ---

    if mm_encoder_outputs.get("video") is not None:
        video_embeds = mm_encoder_outputs["video"].pooler_output
        deepstack_video_embeds = mm_encoder_outputs["video"].deepstack_features
        video_embeds = torch.cat(video_embeds, dim=0).to(inputs_embeds.device, inputs_embeds.dtype)
        # --- Patch.2 ---
        is_video = self.get_placeholder_mask(input_ids, inputs_embeds=inputs_embeds)[1][..., 0]
        video_embeds = select_features(video_embeds, is_video)
        deepstack_video_embeds = [
            [select_features(torch.cat(feat, dim=0), is_video)] for feat in deepstack_video_embeds
        ]
        # --- Patch.2 ---
        _, video_mask = self.get_placeholder_mask(input_ids, inputs_embeds=inputs_embeds, video_features=video_embeds)
        inputs_embeds = inputs_embeds.masked_scatter(video_mask, video_embeds)
    # --- Patch.1 ---
    elif runs_dummy:
        inputs_embeds = inputs_embeds + self.visual.dummy_forward().to(inputs_embeds.device, inputs_embeds.dtype)
    # --- Patch.1 ---

    visual_pos_masks = None
    deepstack_visual_embeds = None
    if image_mask is not None and video_mask is not None:
        # aggregate visual_pos_masks and deepstack_visual_embeds
        image_mask = image_mask[..., 0]
        video_mask = video_mask[..., 0]
        visual_pos_masks = image_mask | video_mask
        deepstack_visual_embeds = []
        image_mask_joint = image_mask[visual_pos_masks]
        video_mask_joint = video_mask[visual_pos_masks]
        for img_embed, vid_embed in zip(deepstack_image_embeds, deepstack_video_embeds):
            img_embed = torch.cat(img_embed, dim=0)
            vid_embed = torch.cat(vid_embed, dim=0)
            embed_joint = img_embed.new_zeros(visual_pos_masks.sum(), img_embed.shape[-1])

            embed_joint[image_mask_joint, :] = img_embed
            embed_joint[video_mask_joint, :] = vid_embed
            deepstack_visual_embeds.append(embed_joint)
    elif image_mask is not None:
        image_mask = image_mask[..., 0]
        visual_pos_masks = image_mask
        deepstack_visual_embeds = [torch.cat(feat, dim=0) for feat in deepstack_image_embeds]
    elif video_mask is not None:
        video_mask = video_mask[..., 0]
        visual_pos_masks = video_mask
        deepstack_visual_embeds = [torch.cat(feat, dim=0) for feat in deepstack_video_embeds]

    # --- Patch.2 ---
    check_position_ids(position_ids, inputs_embeds)
    # --- Patch.2 ---
    if position_ids is None:
        position_ids = self.compute_3d_position_ids(
            input_ids=input_ids,
            image_grid_thw=image_grid_thw,
            video_grid_thw=video_grid_thw,
            inputs_embeds=inputs_embeds,
            attention_mask=attention_mask,
            past_key_values=past_key_values,
            mm_token_type_ids=mm_token_type_ids,
        )

    outputs = self.language_model(
        input_ids=None,
        position_ids=position_ids,
        attention_mask=attention_mask,
        past_key_values=past_key_values,
        inputs_embeds=inputs_embeds,
        visual_pos_masks=visual_pos_masks,
        deepstack_visual_embeds=deepstack_visual_embeds,
        **kwargs,
    )

    return outputs


# ================================================================
# Patch: Qwen3VLForConditionalGeneration.forward
# 1. fused linear cross entropy where a kernel is bound - no logits are made then
# 2. under sequence parallelism the loss is that of whole sequences
# ================================================================
@config.override_method("Qwen3VLForConditionalGeneration.forward", description="Op slot for the loss")
def qwen3_vl_for_conditional_generation_forward(
    self,
    input_ids: torch.LongTensor = None,
    attention_mask: torch.Tensor | None = None,
    position_ids: torch.LongTensor | None = None,
    past_key_values: Cache | None = None,
    inputs_embeds: torch.Tensor | None = None,
    labels: torch.LongTensor | None = None,
    pixel_values: torch.Tensor | None = None,
    pixel_values_videos: torch.Tensor | None = None,
    image_grid_thw: torch.LongTensor | None = None,
    video_grid_thw: torch.LongTensor | None = None,
    mm_token_type_ids: torch.IntTensor | None = None,
    logits_to_keep: int | torch.Tensor = 0,
    mm_encoder_outputs: dict[str, BaseModelOutputWithPooling] | None = None,
    **kwargs: Unpack[TransformersKwargs],
) -> tuple | CausalLMOutputWithPast:
    outputs = self.model(
        input_ids=input_ids,
        pixel_values=pixel_values,
        pixel_values_videos=pixel_values_videos,
        image_grid_thw=image_grid_thw,
        video_grid_thw=video_grid_thw,
        position_ids=position_ids,
        attention_mask=attention_mask,
        past_key_values=past_key_values,
        inputs_embeds=inputs_embeds,
        mm_token_type_ids=mm_token_type_ids,
        mm_encoder_outputs=mm_encoder_outputs,
        **kwargs,
    )

    hidden_states = outputs[0]

    loss = None
    logits = None
    # --- Patch.1 ---
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
        # --- Patch.1 ---
        hidden_states = slice_logits_to_keep(hidden_states, logits_to_keep)
        logits = self.lm_head(hidden_states)
        if labels is not None:
            loss = self.loss_function(
                logits=logits, labels=labels, vocab_size=self.config.text_config.vocab_size, **kwargs
            )
    # --- Patch.2 ---
    if loss is not None:
        loss = reduce_loss(
            loss,
            kwargs.get("shift_labels", labels),
            num_items_in_batch=kwargs.get("num_items_in_batch"),
            ignore_index=kwargs.get("ignore_index", -100),
        )
    # --- Patch.2 ---

    return CausalLMOutputWithPast(
        loss=loss,
        logits=logits,
        past_key_values=outputs.past_key_values,
        hidden_states=outputs.hidden_states,
        attentions=outputs.attentions,
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
