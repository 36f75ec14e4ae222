"""Replacement for the whole of Qwen3-Omni-MoE: its thinker alone."""

from typing import TYPE_CHECKING

from transformers import GenerationMixin, Qwen3OmniMoeConfig
from transformers.modeling_outputs import BaseModelOutputWithPooling, MoeCausalLMOutputWithPast
from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import Qwen3OmniMoePreTrainedModel

if TYPE_CHECKING:
    from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import Qwen3OmniMoeThinkerForConditionalGeneration

    from zoo.qwen2_5_omni.qwen2_5_omni_gpu_patch_gen_config import leave_out_speech


# ================================================================
# Patch: Qwen3OmniMoeForConditionalGeneration
# 1. no talker and no vocoder - their tensors in a checkpoint are known and left out
# 2. what needs them refuses and says what to use
# 3. forward, which upstream does not have, is the thinker's - a trainer takes the whole model
# ================================================================
class ThinkerOfQwen3OmniMoe(Qwen3OmniMoePreTrainedModel, GenerationMixin):
    config: Qwen3OmniMoeConfig
    # --- Patch.1 ---
    output_modalities = ("text",)

    def __init__(self, config: Qwen3OmniMoeConfig):
        super().__init__(config)

        self.thinker = Qwen3OmniMoeThinkerForConditionalGeneration._from_config(config.thinker_config)
        self.has_talker = False
        # from_pretrained knows the tensors of speech already, by what Qwen3OmniMoeThinkerModel ignores
        self.register_load_state_dict_pre_hook(leave_out_speech)
        self.post_init()

    # --- Patch.1 ---

    # --- Patch.2 ---
    def enable_talker(self):
        raise NotImplementedError(
            "There is no talker here. Use transformers.Qwen3OmniMoeForConditionalGeneration to make speech."
        )

    def disable_talker(self):
        """Nothing is left to disable."""

    def generate(self, *args, **kwargs):
        raise NotImplementedError(
            "There is no talker here. Use model.thinker.generate to make text, "
            "and transformers.Qwen3OmniMoeForConditionalGeneration to make speech."
        )

    # --- Patch.2 ---

    # --- Patch.3 ---
    def forward(
        self,
        input_ids=None,
        input_features=None,
        pixel_values=None,
        pixel_values_videos=None,
        image_grid_thw=None,
        video_grid_thw=None,
        attention_mask=None,
        feature_attention_mask=None,
        audio_feature_lengths=None,
        position_ids=None,
        past_key_values=None,
        inputs_embeds=None,
        labels=None,
        use_cache=None,
        output_router_logits: bool | None = None,
        use_audio_in_video=None,
        video_second_per_grid=None,
        mm_encoder_outputs: dict[str, BaseModelOutputWithPooling] | None = None,
        **kwargs,
    ) -> tuple | MoeCausalLMOutputWithPast:
        """What the thinker computes."""
        return self.thinker(
            input_ids=input_ids,
            input_features=input_features,
            pixel_values=pixel_values,
            pixel_values_videos=pixel_values_videos,
            image_grid_thw=image_grid_thw,
            video_grid_thw=video_grid_thw,
            attention_mask=attention_mask,
            feature_attention_mask=feature_attention_mask,
            audio_feature_lengths=audio_feature_lengths,
            position_ids=position_ids,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            labels=labels,
            use_cache=use_cache,
            output_router_logits=output_router_logits,
            use_audio_in_video=use_audio_in_video,
            video_second_per_grid=video_second_per_grid,
            mm_encoder_outputs=mm_encoder_outputs,
            **kwargs,
        )

    def get_position_id_func(self):
        """The thinker's."""
        return self.thinker.get_position_id_func()

    def get_metadata_collate_func(self):
        """The thinker's."""
        return self.thinker.get_metadata_collate_func()

    def get_parallel_plan(self):
        """The thinker's, one level down."""
        from zoo.qwen3_omni_moe.parallel_plan import get_parallel_plan

        return get_parallel_plan(type(self))

    # --- Patch.3 ---
