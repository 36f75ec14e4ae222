"""Replacements for the forward of Qwen2.5-Omni's thinker: the model, and the model with its head."""

from typing import TYPE_CHECKING

from patchgen import Edits

if TYPE_CHECKING:
    from patchgen_core.runtime.parallel import check_position_ids, reduce_loss, select_features

    from zoo.qwen2_5_omni.generated.patched_modeling_qwen2_5_omni_gpu import slot_causal_lm_loss
    from zoo.qwen2_vl.qwen2_vl_gpu_patch_gen_config import needs_dummy_forward

# ================================================================
# Patch: Qwen2_5OmniThinkerModel.forward
# 1. the towers run for sounds, pictures and videos, once each, also where a rank has none of them
# 2. under sequence parallelism positions come from outside, and features go to the placeholders of this rank's slice
# ================================================================
qwen2_5_omni_thinker_model_forward = Edits()


@qwen2_5_omni_thinker_model_forward.edit(at="if input_features is not None:")
def call_needs_dummy_forward(self, mm_encoder_outputs):
    hears_dummy = needs_dummy_forward(self)
    sees_dummy = hears_dummy and mm_encoder_outputs is None
    ...


@qwen2_5_omni_thinker_model_forward.edit(at="_, _, audio_mask = self.get_placeholder_mask(...)")
def select_sound_features(audio_features, audio_mask):
    ...
    audio_features = select_features(audio_features, audio_mask[..., 0])


@qwen2_5_omni_thinker_model_forward.edit(at="if input_features is not None:")
def run_without_sounds(self, inputs_embeds, hears_dummy):
    if ...:
        ...
    elif hears_dummy:
        inputs_embeds = inputs_embeds + self.audio_tower.dummy_forward().to(inputs_embeds.device, inputs_embeds.dtype)


@qwen2_5_omni_thinker_model_forward.edit(at="image_embeds = image_embeds.to(...)")
def select_picture_features(self, input_ids, inputs_embeds, image_embeds):
    ...
    image_mask, _, _ = self.get_placeholder_mask(input_ids, inputs_embeds=inputs_embeds)
    image_embeds = select_features(image_embeds, image_mask[..., 0])


@qwen2_5_omni_thinker_model_forward.edit(at='if mm_encoder_outputs.get("image") is not None:')
def run_without_pictures(self, inputs_embeds, sees_dummy):
    if ...:
        ...
    elif sees_dummy:
        inputs_embeds = inputs_embeds + self.visual.dummy_forward().to(inputs_embeds.device, inputs_embeds.dtype)


@qwen2_5_omni_thinker_model_forward.edit(at="video_embeds = video_embeds.to(...)")
def select_video_features(self, input_ids, inputs_embeds, video_embeds):
    ...
    _, video_mask, _ = self.get_placeholder_mask(input_ids, inputs_embeds=inputs_embeds)
    video_embeds = select_features(video_embeds, video_mask[..., 0])


@qwen2_5_omni_thinker_model_forward.edit(at='if mm_encoder_outputs.get("video") is not None:')
def run_without_videos(self, inputs_embeds, sees_dummy):
    if ...:
        ...
    elif sees_dummy:
        inputs_embeds = inputs_embeds + self.visual.dummy_forward().to(inputs_embeds.device, inputs_embeds.dtype)


@qwen2_5_omni_thinker_model_forward.edit(at="if feature_attention_mask is not None:")
def call_check_position_ids(position_ids, inputs_embeds):
    ...
    check_position_ids(position_ids, inputs_embeds)


# ================================================================
# Patch: Qwen2_5OmniThinkerForConditionalGeneration.forward
# 1. fused linear cross entropy where a kernel is bound - no logits are made then
# 2. under sequence parallelism the loss is that of whole sequences
# ================================================================
qwen2_5_omni_thinker_for_conditional_generation_forward = Edits()
qwen2_5_omni_thinker_for_conditional_generation_forward.delete_code("logits = self.lm_head(...)")


@qwen2_5_omni_thinker_for_conditional_generation_forward.edit(at="if labels is not None:")
def call_slot_causal_lm_loss(self, labels, kwargs, hidden_states, loss, shift_labels):
    logits = None
    if labels is not None and slot_causal_lm_loss.has_kernel:
        shift_labels = kwargs.get("shift_labels")
        loss = slot_causal_lm_loss(
            hidden_states,
            self.lm_head.weight,
            labels if shift_labels is None else None,
            shift_labels=shift_labels,
            num_items_in_batch=kwargs.get("num_items_in_batch"),
            ignore_index=kwargs.get("ignore_index", -100),
        )
    else:
        logits = self.lm_head(hidden_states)
        ...
    if loss is not None:
        loss = reduce_loss(
            loss,
            kwargs.get("shift_labels", labels),
            num_items_in_batch=kwargs.get("num_items_in_batch"),
            ignore_index=kwargs.get("ignore_index", -100),
        )
