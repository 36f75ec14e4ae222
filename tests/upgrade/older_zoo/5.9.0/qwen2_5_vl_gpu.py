"""Qwen2.5-VL by op slots: what a trainer needs of a model that sees is Qwen2-VL's.

Where nothing is bound, the generated module runs upstream's own lines.

    patchgen zoo.qwen2_5_vl.qwen2_5_vl_gpu_patch_gen_config --diff
"""

import torch
from patchgen import PatchConfig
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs

from zoo.llama.llama_gpu_patch_gen_config import (
    llama_mlp_forward,
    llama_rms_norm_forward,
)
from zoo.qwen2_vl.qwen2_vl_gpu_patch_gen_config import (
    Qwen2VLPositions,
    Qwen2VLVisionMetadata,
    needs_dummy_forward,
    qwen2_vl_get_metadata_collate_func,
    qwen2_vl_get_position_id_func,
    qwen2_vl_vision_dummy_forward,
)

_NAME_MAP = {"Qwen2VL": "Qwen2_5_VL"}

config = PatchConfig(
    source_module="transformers.models.qwen2_5_vl.modeling_qwen2_5_vl",
    target_file="patched_modeling_qwen2_5_vl_gpu.py",
    description="Qwen2.5-VL with op slots for GPU training",
)

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_import("transformers.vision_utils", names=["get_vision_cu_seqlens"])
config.add_post_import_block(
    """
    slot_rms_norm = OpSlot("rms_norm", "standard")
    slot_swiglu_mlp = OpSlot("swiglu_mlp", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    """
)

# With kernels of the hub switched on, these would take the place of what is patched below.
config.drop_decorators("Qwen2_5_VLRMSNorm", "use_kernel_forward_from_hub")

# Text and tower have the same class of norm.
config.override_method(
    "Qwen2_5_VLRMSNorm.forward",
    replacement=llama_rms_norm_forward,
    name_map={"Llama": "Qwen2_5_VL"},
    description="Op slot for RMSNorm",
)
config.override_method(
    "Qwen2MLP.forward", replacement=llama_mlp_forward, name_map={"Llama": "Qwen2"}, description="Op slot for SwiGLU"
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
# ================================================================
@config.override_method("Qwen2_5_VLModel.forward", description="The vision tower runs on every rank")
def qwen2_5_vl_model_forward(
    self,
    input_ids: torch.LongTensor | None = None,
    attention_mask: torch.Tensor | None = None,
    position_ids: torch.LongTensor | None = None,
    past_key_values: Cache | None = None,
    inputs_embeds: torch.FloatTensor | None = None,
    use_cache: bool | None = None,
    pixel_values: torch.Tensor | None = None,
    pixel_values_videos: torch.FloatTensor | None = None,
    image_grid_thw: torch.LongTensor | None = None,
    video_grid_thw: torch.LongTensor | None = None,
    rope_deltas: torch.LongTensor | None = None,
    mm_token_type_ids: torch.IntTensor | None = None,
    second_per_grid_ts: torch.Tensor | None = None,
    **kwargs: Unpack[TransformersKwargs],
) -> tuple | Qwen2_5_VLModelOutputWithPast:
    r"""
    image_grid_thw (`torch.LongTensor` of shape `(num_images, 3)`, *optional*):
        The temporal, height and width of feature shape of each image in LLM.
    video_grid_thw (`torch.LongTensor` of shape `(num_videos, 3)`, *optional*):
        The temporal, height and width of feature shape of each video in LLM.
    rope_deltas (`torch.LongTensor` of shape `(batch_size, )`, *optional*):
        The rope index difference between sequence length and multimodal rope.
    second_per_grid_ts (`torch.Tensor` of shape `(num_videos)`, *optional*):
        The time interval (in seconds) for each grid along the temporal dimension in the 3D position IDs.
    """
    if inputs_embeds is None:
        inputs_embeds = self.get_input_embeddings()(input_ids)

    if pixel_values is not None:
        image_embeds = self.get_image_features(pixel_values, image_grid_thw, **kwargs).pooler_output
        image_embeds = torch.cat(image_embeds, dim=0).to(inputs_embeds.device, inputs_embeds.dtype)
        image_mask, _ = self.get_placeholder_mask(input_ids, inputs_embeds=inputs_embeds, image_features=image_embeds)
        inputs_embeds = inputs_embeds.masked_scatter(image_mask, image_embeds)
    # --- Patch.1 ---
    elif needs_dummy_forward(self):
        inputs_embeds = inputs_embeds + self.visual.dummy_forward().to(inputs_embeds.device, inputs_embeds.dtype)
    # --- Patch.1 ---

    if pixel_values_videos is not None:
        video_embeds = self.get_video_features(pixel_values_videos, video_grid_thw, **kwargs).pooler_output
        video_embeds = torch.cat(video_embeds, dim=0).to(inputs_embeds.device, inputs_embeds.dtype)
        _, video_mask = self.get_placeholder_mask(input_ids, inputs_embeds=inputs_embeds, video_features=video_embeds)
        inputs_embeds = inputs_embeds.masked_scatter(video_mask, video_embeds)
    # --- Patch.1 ---
    elif needs_dummy_forward(self):
        inputs_embeds = inputs_embeds + self.visual.dummy_forward().to(inputs_embeds.device, inputs_embeds.dtype)
    # --- Patch.1 ---

    if position_ids is None:
        position_ids = self.compute_3d_position_ids(
            input_ids=input_ids,
            image_grid_thw=image_grid_thw,
            video_grid_thw=video_grid_thw,
            second_per_grid_ts=second_per_grid_ts,
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
        use_cache=use_cache,
        **kwargs,
    )

    return Qwen2_5_VLModelOutputWithPast(
        last_hidden_state=outputs.last_hidden_state,
        past_key_values=outputs.past_key_values,
        hidden_states=outputs.hidden_states,
        attentions=outputs.attentions,
        rope_deltas=self.rope_deltas,
    )


# ================================================================
# Patch: Qwen2_5_VLForConditionalGeneration.forward
# 1. fused linear cross entropy where a kernel is bound - no logits are made then
# ================================================================
@config.override_method("Qwen2_5_VLForConditionalGeneration.forward", description="Op slot for the loss")
def qwen2_5_vl_for_conditional_generation_forward(
    self,
    input_ids: torch.LongTensor | None = None,
    attention_mask: torch.Tensor | None = None,
    position_ids: torch.LongTensor | None = None,
    past_key_values: Cache | None = None,
    inputs_embeds: torch.FloatTensor | None = None,
    labels: torch.LongTensor | None = None,
    use_cache: bool | None = None,
    pixel_values: torch.Tensor | None = None,
    pixel_values_videos: torch.FloatTensor | None = None,
    image_grid_thw: torch.LongTensor | None = None,
    video_grid_thw: torch.LongTensor | None = None,
    rope_deltas: torch.LongTensor | None = None,
    mm_token_type_ids: torch.IntTensor | None = None,
    second_per_grid_ts: torch.Tensor | None = None,
    logits_to_keep: int | torch.Tensor = 0,
    **kwargs: Unpack[TransformersKwargs],
) -> tuple | Qwen2_5_VLCausalLMOutputWithPast:
    r"""
    image_grid_thw (`torch.LongTensor` of shape `(num_images, 3)`, *optional*):
        The temporal, height and width of feature shape of each image in LLM.
    video_grid_thw (`torch.LongTensor` of shape `(num_videos, 3)`, *optional*):
        The temporal, height and width of feature shape of each video in LLM.
    rope_deltas (`torch.LongTensor` of shape `(batch_size, )`, *optional*):
        The rope index difference between sequence length and multimodal rope.
    second_per_grid_ts (`torch.Tensor` of shape `(num_videos)`, *optional*):
        The time interval (in seconds) for each grid along the temporal dimension in the 3D position IDs.
    """
    outputs = self.model(
        input_ids=input_ids,
        pixel_values=pixel_values,
        pixel_values_videos=pixel_values_videos,
        image_grid_thw=image_grid_thw,
        video_grid_thw=video_grid_thw,
        second_per_grid_ts=second_per_grid_ts,
        mm_token_type_ids=mm_token_type_ids,
        position_ids=position_ids,
        attention_mask=attention_mask,
        past_key_values=past_key_values,
        inputs_embeds=inputs_embeds,
        use_cache=use_cache,
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
        # Only compute necessary logits, and do not upcast them to float if we are not computing the loss
        slice_indices = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(hidden_states[:, slice_indices, :])
        if labels is not None:
            loss = self.loss_function(
                logits=logits, labels=labels, vocab_size=self.config.text_config.vocab_size, **kwargs
            )

    return Qwen2_5_VLCausalLMOutputWithPast(
        loss=loss,
        logits=logits,
        past_key_values=outputs.past_key_values,
        hidden_states=outputs.hidden_states,
        attentions=outputs.attentions,
        rope_deltas=outputs.rope_deltas,
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
