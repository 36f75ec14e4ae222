"""Replacement for the whole of Qwen2.5-Omni: its thinker alone."""

from typing import TYPE_CHECKING

import torch
from transformers import GenerationMixin, Qwen2_5OmniConfig
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutputWithPooling, CausalLMOutputWithPast
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniPreTrainedModel
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs

if TYPE_CHECKING:
    from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniThinkerForConditionalGeneration

    from zoo.qwen2_5_omni.qwen2_5_omni_gpu_patch_gen_config import leave_out_speech


# ================================================================
# Patch: Qwen2_5OmniForConditionalGeneration
# 1. no talker and no vocoder - their tensors in a checkpoint are known and left out, and speakers are not asked for
# 2. what needs them refuses and says what to use
# 3. forward, which upstream does not have, is the thinker's - a trainer takes the whole model
# ================================================================
class ThinkerOfQwen2_5Omni(Qwen2_5OmniPreTrainedModel, GenerationMixin):
    config: Qwen2_5OmniConfig
    # --- Patch.1 ---
    output_modalities = ("text",)
    _no_split_modules = ["Qwen2_5OmniDecoderLayer", "Qwen2_5OmniVisionBlock", "Qwen2_5OmniAudioEncoderLayer"]

    def __init__(self, config: Qwen2_5OmniConfig):
        super().__init__(config)
        self.thinker = Qwen2_5OmniThinkerForConditionalGeneration(config.thinker_config)
        self.has_talker = False
        # from_pretrained knows the tensors of speech already, by what Qwen2_5OmniThinkerModel ignores
        self.register_load_state_dict_pre_hook(leave_out_speech)
        self.post_init()

    # --- Patch.1 ---

    # --- Patch.2 ---
    def enable_talker(self):
        raise NotImplementedError(
            "There is no talker here. Use transformers.Qwen2_5OmniForConditionalGeneration to make speech."
        )

    def load_speakers(self, path):
        raise NotImplementedError(
            "There is no talker here. Use transformers.Qwen2_5OmniForConditionalGeneration to make speech."
        )

    def disable_talker(self):
        """Nothing is left to disable."""

    def generate(self, *args, **kwargs):
        raise NotImplementedError(
            "There is no talker here. Use model.thinker.generate to make text, "
            "and transformers.Qwen2_5OmniForConditionalGeneration to make speech."
        )

    # --- Patch.2 ---

    # --- Patch.3 ---
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        input_features: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
        pixel_values_videos: torch.Tensor | None = None,
        image_grid_thw: torch.LongTensor | None = None,
        video_grid_thw: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        feature_attention_mask: torch.Tensor | None = None,
        audio_feature_lengths: torch.LongTensor | None = None,
        position_ids: torch.LongTensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        use_audio_in_video: bool | None = None,
        video_second_per_grid: torch.LongTensor | None = None,
        mm_encoder_outputs: dict[str, BaseModelOutputWithPooling] | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple | CausalLMOutputWithPast:
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

    # --- Patch.3 ---
