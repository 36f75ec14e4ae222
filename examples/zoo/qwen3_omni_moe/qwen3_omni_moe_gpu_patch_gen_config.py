"""Qwen3-Omni-MoE's thinker by op slots: Qwen2.5-Omni without its speech half, with Qwen3-VL's eyes and experts.

Where nothing is bound, the generated module runs upstream's own lines.

    patchgen zoo.qwen3_omni_moe.qwen3_omni_moe_gpu_patch_gen_config --diff
"""

import torch
from patchgen import PatchConfig
from transformers import GenerationMixin, PreTrainedModel, Qwen3OmniMoeConfig
from transformers import initialization as init
from transformers.modeling_outputs import (
    BaseModelOutputWithPooling,
    MoeCausalLMOutputWithPast,
    MoeModelOutputWithPast,
)
from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import Qwen3OmniMoePreTrainedModel
from transformers.utils import auto_docstring

from zoo.llama.llama_gpu_patch_gen_config import (
    llama_apply_rotary_pos_emb,
    llama_mlp_forward,
    llama_rms_norm_forward,
)
from zoo.qwen2_5_omni.qwen2_5_omni_gpu_patch_gen_config import (
    Qwen2_5OmniMetadata,
    Qwen2_5OmniPositions,
    leave_out_speech,
    qwen2_5_omni_get_metadata_collate_func,
    qwen2_5_omni_get_position_id_func,
)
from zoo.qwen2_vl.qwen2_vl_gpu_patch_gen_config import Qwen2VLVisionMetadata, needs_dummy_forward
from zoo.qwen2_vl.sequence_parallel import SEQUENCE_PARALLEL, qwen2_vl_vision_attention_forward
from zoo.qwen3.qwen3_gpu_patch_gen_config import qwen3_attention_forward
from zoo.qwen3_moe.qwen3_moe_gpu_patch_gen_config import qwen3_moe_experts_forward
from zoo.qwen3_vl.qwen3_vl_gpu_patch_gen_config import Qwen3VLVisionMetadata, qwen3_vl_vision_dummy_forward
from zoo.qwen3_vl.sequence_parallel import qwen3_vl_text_model_forward, qwen3_vl_vision_forward

_OF_QWEN2_5_OMNI = {"Qwen2_5Omni": "Qwen3OmniMoe", "token2wav": "code2wav"}
_OF_QWEN3_VL = {"Qwen3VLVisionModel": "Qwen3OmniMoeVisionEncoder", "Qwen3VL": "Qwen3OmniMoe"}

config = PatchConfig(
    source_module="transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe",
    target_file="patched_modeling_qwen3_omni_moe_gpu.py",
    description="Qwen3-Omni-MoE's thinker with op slots for GPU training",
)

# The talker and the vocoder, with everything that only they use, whatever it is called.
config.exclude_from_output(
    "Qwen3OmniMoeThinkerTextPreTrainedModel",
    "Qwen3OmniMoeTalkerResizeMLP",
    "Qwen3OmniMoeTalkerCodePredictorOutputWithPast",
    "Qwen3OmniMoeRMSNorm",
    "Qwen3OmniMoeTalkerCodePredictorAttention",
    "Qwen3OmniMoeMLP",
    "Qwen3OmniMoeTalkerCodePredictorDecoderLayer",
    "Qwen3OmniMoeRotaryEmbedding",
    "Qwen3OmniMoeTalkerCodePredictorModel",
    "Qwen3OmniMoeTalkerCodePredictorModelForConditionalGeneration",
    "Qwen3OmniMoeTalkerOutputWithPast",
    "Qwen3OmniMoeTalkerRotaryEmbedding",
    "Qwen3OmniMoeTalkerTextMLP",
    "Qwen3OmniMoeTalkerTextTopKRouter",
    "Qwen3OmniMoeTalkerTextExperts",
    "Qwen3OmniMoeTalkerTextSparseMoeBlock",
    "Qwen3OmniMoeTalkerDecoderLayer",
    "Qwen3OmniMoeTalkerModel",
    "Qwen3OmniMoeTalkerForConditionalGeneration",
    "Qwen3OmniMoeCausalConvNet",
    "Qwen3OmniMoeCausalTransConvNet",
    "Qwen3OmniMoeConvNeXtBlock",
    "Qwen3OmniMoeCode2WavAttention",
    "Qwen3OmniMoeCode2WavMlp",
    "Qwen3OmniMoeCode2WavRMSNorm",
    "Qwen3OmniMoeCode2WavLayerScale",
    "Qwen3OmniMoeCode2WavTransformerLayer",
    "Qwen3OmniMoeCode2WavTransformerModel",
    "Qwen3OmniMoeSnakeBeta",
    "SnakeBeta",
    "Qwen3OmniMoeCode2WavDecoderResidualUnit",
    "Qwen3OmniMoeCode2WavDecoderBlock",
    "Qwen3OmniMoeCode2Wav",
)

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_import("patchgen_core.runtime.parallel", names=["sequence_parallel_load_balancing", *SEQUENCE_PARALLEL])
config.add_import("transformers.vision_utils", names=["get_vision_cu_seqlens"])
config.add_post_import_block(
    """
    slot_rms_norm = OpSlot("rms_norm", "standard")
    slot_rotary_pos_emb = OpSlot("rotary_pos_emb", "full")
    slot_swiglu_mlp = OpSlot("swiglu_mlp", "standard")
    slot_moe_experts = OpSlot("moe_experts", "standard")
    slot_load_balancing_loss = OpSlot("moe_load_balancing_loss", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    """
)

# Kernels of the hub, and transformers' own choice of experts, would take the place of what is patched below.
config.drop_decorators("Qwen3OmniMoeThinkerTextRMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen3OmniMoeTextRMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen3OmniMoeThinkerTextAttention", "use_kernelized_func")
config.drop_decorators("Qwen3OmniMoeThinkerTextExperts", "use_experts_implementation")

# Both towers have layer norms and MLPs without a gate, which no slot here is for: they stay upstream's.
config.override_method(
    "Qwen3OmniMoeThinkerTextRMSNorm.forward",
    replacement=llama_rms_norm_forward,
    name_map={"Llama": "Qwen3OmniMoeThinkerText"},
    description="Op slot for RMSNorm in the layers",
)
config.override_method(
    "Qwen3OmniMoeTextRMSNorm.forward",
    replacement=llama_rms_norm_forward,
    name_map={"Llama": "Qwen3OmniMoeText"},
    description="Op slot for RMSNorm behind the layers",
)
config.override_method(
    "Qwen3OmniMoeThinkerTextMLP.forward",
    replacement=llama_mlp_forward,
    name_map={"Llama": "Qwen3OmniMoeThinkerText"},
    description="Op slot for SwiGLU in layers without experts",
)
config.override_method(
    "Qwen3OmniMoeThinkerTextExperts.forward",
    replacement=qwen3_moe_experts_forward,
    name_map={"Qwen3Moe": "Qwen3OmniMoeThinkerText"},
    description="Op slot for the experts",
)
# The positions of the three axes are interleaved before this function, which rotates whole heads. That of the vision
# tower computes in float32 whatever the dtype is, which no kernel does: it stays upstream's.
config.replace_function(
    "apply_rotary_pos_emb", replacement=llama_apply_rotary_pos_emb, description="Op slot for the rotary embedding"
)

config.override_method(
    "Qwen3OmniMoeThinkerTextAttention.forward",
    replacement=qwen3_attention_forward,
    name_map={"Qwen3": "Qwen3OmniMoeThinkerText"},
    description="Sequence parallel attention",
)
config.override_method(
    "Qwen3OmniMoeThinkerTextModel.forward",
    replacement=qwen3_vl_text_model_forward,
    name_map={"Qwen3VL": "Qwen3OmniMoeThinker", "BaseModelOutputWithPast": "MoeModelOutputWithPast"},
    description="Positions and masks of whole sequences",
)
config.override_method(
    "Qwen3OmniMoeVisionAttention.forward",
    replacement=qwen2_vl_vision_attention_forward,
    name_map={"VisionAttention": "Qwen3OmniMoeVisionAttention"},
    description="Sequence parallel attention in the vision tower",
)
config.override_method(
    "Qwen3OmniMoeVisionEncoder.forward",
    replacement=qwen3_vl_vision_forward,
    name_map=_OF_QWEN3_VL,
    description="The vision tower on slices of the patches",
)

config.add_helper(needs_dummy_forward)
config.add_helper(leave_out_speech, name_map=_OF_QWEN2_5_OMNI)
config.add_helper(Qwen2VLVisionMetadata)
config.add_helper(Qwen3VLVisionMetadata, name_map=_OF_QWEN3_VL)
config.add_helper(Qwen2_5OmniMetadata, name_map=_OF_QWEN2_5_OMNI)
config.add_helper_after(
    "Qwen3OmniMoePreTrainedModelForConditionalGeneration", Qwen2_5OmniPositions, name_map=_OF_QWEN2_5_OMNI
)


@config.add_helper
class Qwen3OmniMoeAudioMetadata:
    """What the audio tower makes of the lengths of sounds."""

    def __init__(self, config) -> None:
        self.config = config

    def of(self, input_features: torch.Tensor, feature_lens: torch.Tensor) -> dict:
        """What the tower takes for features [mel bins, frames] of sounds of these lengths, one after another."""
        window = self.config.n_window
        padded_feature, chunk_lengths = chunk_and_pad_features(input_features, feature_lens, window)
        cu_seqlens = get_audio_cu_seqlens(chunk_lengths, feature_lens, self.config.n_window_infer, window)
        return {
            "padded_feature": padded_feature,
            "chunk_lengths": chunk_lengths,
            "valid_indices": get_valid_indices(chunk_lengths, window),
            "cu_seqlens": cu_seqlens,
            "max_seqlen": int(cu_seqlens.diff().max()),
        }


# ================================================================
# Patch: Qwen3OmniMoePreTrainedModel
# 1. no talker among the layers that stay in one piece when a model is spread or sharded
# 2. experts and routers are initialized one by one - in code that is not its own, transformers passes over modules
#    without parameters of their own, such as the block around them, and experts would be what is in memory by chance
# 3. nothing of the vocoder, which is not in this module
# ================================================================
@config.replace_class(
    "Qwen3OmniMoePreTrainedModel", description="Experts initialized one by one, no talker and no vocoder"
)
@auto_docstring
class Qwen3OmniMoePreTrainedModelWithoutSpeech(PreTrainedModel):
    config: Qwen3OmniMoeConfig
    base_model_prefix = "model"
    input_modalities = ("image", "video", "audio", "text")
    supports_gradient_checkpointing = True
    # --- Patch.1 ---
    _no_split_modules = [
        "Qwen3OmniMoeThinkerTextDecoderLayer",
        "Qwen3OmniMoeAudioEncoderLayer",
        "Qwen3OmniMoeVisionBlock",
    ]
    # --- Patch.1 ---
    _skip_keys_device_placement = ["past_key_values"]
    _supports_flash_attn = True
    _supports_sdpa = True
    _can_compile_fullgraph = False
    _supports_attention_backend = True

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        std = getattr(self.config, "initializer_range", 0.02)
        # --- Patch.2 ---
        # if isinstance(module, Qwen3OmniMoeThinkerTextSparseMoeBlock): ...
        if isinstance(module, Qwen3OmniMoeThinkerTextExperts):
            init.normal_(module.gate_up_proj, mean=0.0, std=std)
            init.normal_(module.down_proj, mean=0.0, std=std)
        elif isinstance(module, Qwen3OmniMoeThinkerTextTopKRouter):
            init.normal_(module.weight, mean=0.0, std=std)
        # --- Patch.2 ---
        # --- Patch.3 ---
        # elif isinstance(module, Qwen3OmniMoeCode2Wav): ...
        # --- Patch.3 ---
        elif isinstance(module, SinusoidsPositionEmbedding):
            position_embeddings = module.compute_default_singular_positional_embedding()
            init.copy_(module.positional_embedding, position_embeddings)


# ================================================================
# Patch: Qwen3OmniMoeAudioEncoder.dummy_forward
# 1. new - a rank without sounds takes part in what the ranks of a sharded tower exchange
# ================================================================
@config.override_method(
    "Qwen3OmniMoeAudioEncoder.dummy_forward", description="The tower on a batch without sounds", add=True
)
def qwen3_omni_moe_audio_dummy_forward(self) -> torch.Tensor:
    """A zero to which every parameter of the tower contributes, of a sound that has one feature."""
    # --- Patch.1 ---
    weight = self.conv2d1.weight
    # of fewer, a convolution gets a single column, for which torch has NaN as gradient in bfloat16 on a CPU
    frames = self.conv2d1.stride[1] * self.conv2d2.stride[1] * self.conv2d3.stride[1]
    silence, feature_lens = torch.zeros(self.num_mel_bins, frames, dtype=weight.dtype), torch.tensor([frames])
    metadata = Qwen3OmniMoeAudioMetadata(self.config).of(silence, feature_lens)
    made = {key: v.to(weight.device) if isinstance(v, torch.Tensor) else v for key, v in metadata.items()}
    output = self(silence, feature_lens=feature_lens, return_dict=True, **made)
    return output.last_hidden_state.sum() * 0.0
    # --- Patch.1 ---


config.override_method(
    "Qwen3OmniMoeVisionEncoder.dummy_forward",
    replacement=qwen3_vl_vision_dummy_forward,
    name_map=_OF_QWEN3_VL,
    description="The tower on a batch without pictures",
    add=True,
)


# ================================================================
# Patch: Qwen3OmniMoeThinkerModel.forward
# 1. the towers run for sounds, pictures and videos, once each, also where a rank has none of them
# 2. under sequence parallelism positions come from outside, and features go to the placeholders of this rank's slice
# ================================================================
@config.override_method("Qwen3OmniMoeThinkerModel.forward", description="The towers run on every rank")
def qwen3_omni_moe_thinker_model_forward(
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
    use_cache=None,
    output_router_logits: bool | None = None,
    use_audio_in_video=None,
    video_second_per_grid=None,
    mm_encoder_outputs: dict[str, BaseModelOutputWithPooling] | None = None,
    **kwargs,
) -> tuple | MoeModelOutputWithPast:
    r"""
    feature_attention_mask (`torch.Tensor` of shape `(batch_size, feature_sequence_length)`, *optional*):
        Mask to avoid performing attention on padding feature indices. Mask values selected in `[0, 1]`:

        - 1 for tokens that are **not masked**,
        - 0 for tokens that are **masked**.
    audio_feature_lengths (`torch.LongTensor` of shape `(num_audios)`, *optional*):
        The length of feature shape of each audio in LLM.
    use_audio_in_video (`bool`, *optional*):
        Whether or not use audio track in video, should same as the parameter in `process_audio_info`.
    video_second_per_grid (`torch.LongTensor` of shape `(num_videos)`, *optional*):
        Number of seconds per grid for each video, used for temporal feature mapping.
    """
    output_router_logits = (
        output_router_logits if output_router_logits is not None else self.config.text_config.output_router_logits
    )

    if (pixel_values is not None or pixel_values_videos is not None) and mm_encoder_outputs is not None:
        raise ValueError(
            "You cannot specify both pixel_values/pixel_values_videos and mm_encoder_outputs at the same time"
        )

    if inputs_embeds is None:
        # 1. Extract the input embeddings
        inputs_embeds = self.get_input_embeddings()(input_ids)

    # --- Patch.1 ---
    hears_dummy = needs_dummy_forward(self)
    sees_dummy = hears_dummy and mm_encoder_outputs is None
    # --- Patch.1 ---
    visual_embeds_multiscale = None
    visual_pos_masks = None
    image_mask, video_mask = None, None
    # 2. Merge text , audios , image and video
    if input_features is not None:
        audio_features = self.get_audio_features(
            input_features, feature_attention_mask, audio_feature_lengths, return_dict=True, **kwargs
        ).last_hidden_state
        audio_features = audio_features.to(inputs_embeds.device, inputs_embeds.dtype)
        _, _, audio_mask = self.get_placeholder_mask(input_ids, inputs_embeds=inputs_embeds)
        # --- Patch.2 ---
        audio_features = select_features(audio_features, audio_mask[..., 0])
        # --- Patch.2 ---
        inputs_embeds = inputs_embeds.masked_scatter(audio_mask, audio_features)
    # --- Patch.1 ---
    elif hears_dummy:
        inputs_embeds = inputs_embeds + self.audio_tower.dummy_forward().to(inputs_embeds.device, inputs_embeds.dtype)
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
        image_embeds = torch.cat(mm_encoder_outputs["image"].pooler_output, dim=0)
        image_embeds_multiscale = mm_encoder_outputs["image"].deepstack_features
        image_embeds = image_embeds.to(inputs_embeds.device, inputs_embeds.dtype)
        # --- Patch.2 ---
        image_mask, _, _ = self.get_placeholder_mask(input_ids, inputs_embeds=inputs_embeds)
        image_embeds = select_features(image_embeds, image_mask[..., 0])
        image_embeds_multiscale = [
            [select_features(torch.cat(feat, dim=0), image_mask[..., 0])] for feat in image_embeds_multiscale
        ]
        # --- Patch.2 ---
        image_mask, _, _ = self.get_placeholder_mask(
            input_ids, inputs_embeds=inputs_embeds, image_features=image_embeds
        )
        inputs_embeds = inputs_embeds.masked_scatter(image_mask, image_embeds)
    # --- Patch.1 ---
    elif sees_dummy:
        inputs_embeds = inputs_embeds + self.visual.dummy_forward().to(inputs_embeds.device, inputs_embeds.dtype)
    # --- Patch.1 ---

    if mm_encoder_outputs.get("video") is not None:
        video_embeds = torch.cat(mm_encoder_outputs["video"].pooler_output, dim=0)
        video_embeds_multiscale = mm_encoder_outputs["video"].deepstack_features
        video_embeds = video_embeds.to(inputs_embeds.device, inputs_embeds.dtype)
        # --- Patch.2 ---
        _, video_mask, _ = self.get_placeholder_mask(input_ids, inputs_embeds=inputs_embeds)
        video_embeds = select_features(video_embeds, video_mask[..., 0])
        video_embeds_multiscale = [
            [select_features(torch.cat(feat, dim=0), video_mask[..., 0])] for feat in video_embeds_multiscale
        ]
        # --- Patch.2 ---
        _, video_mask, _ = self.get_placeholder_mask(
            input_ids, inputs_embeds=inputs_embeds, video_features=video_embeds
        )
        inputs_embeds = inputs_embeds.masked_scatter(video_mask, video_embeds)
    # --- Patch.1 ---
    elif sees_dummy:
        inputs_embeds = inputs_embeds + self.visual.dummy_forward().to(inputs_embeds.device, inputs_embeds.dtype)
    # --- Patch.1 ---

    if image_mask is not None and video_mask is not None:
        image_mask = image_mask[..., 0]
        video_mask = video_mask[..., 0]
        visual_pos_masks = video_mask | image_mask
        visual_embeds_multiscale_joint = ()
        image_mask_joint = image_mask[visual_pos_masks]
        video_mask_joint = video_mask[visual_pos_masks]
        for img_embed, vid_embed in zip(image_embeds_multiscale, video_embeds_multiscale):
            img_embed = torch.cat(img_embed, dim=0)
            vid_embed = torch.cat(vid_embed, dim=0)
            embed_joint = img_embed.new_zeros(visual_pos_masks.sum(), img_embed.shape[-1])

            embed_joint[image_mask_joint, :] = img_embed
            embed_joint[video_mask_joint, :] = vid_embed
            visual_embeds_multiscale_joint = visual_embeds_multiscale_joint + (embed_joint,)
        visual_embeds_multiscale = visual_embeds_multiscale_joint
    elif image_mask is not None:
        image_mask = image_mask[..., 0]
        visual_embeds_multiscale = [torch.cat(feat, dim=0) for feat in image_embeds_multiscale]
        visual_pos_masks = image_mask
    elif video_mask is not None:
        video_mask = video_mask[..., 0]
        visual_embeds_multiscale = [torch.cat(feat, dim=0) for feat in video_embeds_multiscale]
        visual_pos_masks = video_mask

    if feature_attention_mask is not None:
        audio_feature_lengths = torch.sum(feature_attention_mask, dim=1)
    else:
        audio_feature_lengths = None

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
            use_audio_in_video=use_audio_in_video,
            audio_feature_lengths=audio_feature_lengths,
            video_second_per_grid=video_second_per_grid,
        )

    outputs = self.language_model(
        attention_mask=attention_mask,
        position_ids=position_ids,
        past_key_values=past_key_values,
        inputs_embeds=inputs_embeds,
        use_cache=use_cache,
        output_router_logits=output_router_logits,
        deepstack_visual_embeds=visual_embeds_multiscale,
        visual_pos_masks=visual_pos_masks,
        **kwargs,
    )

    return MoeModelOutputWithPast(
        last_hidden_state=outputs.last_hidden_state,
        hidden_states=outputs.hidden_states,
        attentions=outputs.attentions,
        past_key_values=outputs.past_key_values,
        router_logits=outputs.router_logits,
    )


# ================================================================
# Patch: Qwen3OmniMoeThinkerForConditionalGeneration.forward
# 1. fused linear cross entropy where a kernel is bound - no logits are made then
# 2. load-balancing loss by its slot
# 3. under sequence parallelism both losses are those of whole sequences
# ================================================================
@config.override_method("Qwen3OmniMoeThinkerForConditionalGeneration.forward", description="Op slots for the losses")
def qwen3_omni_moe_thinker_for_conditional_generation_forward(
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
    r"""
    feature_attention_mask (`torch.Tensor` of shape `(batch_size, feature_sequence_length)`, *optional*):
        Mask to avoid performing attention on padding feature indices. Mask values selected in `[0, 1]`:

        - 1 for tokens that are **not masked**,
        - 0 for tokens that are **masked**.
    audio_feature_lengths (`torch.LongTensor` of shape `(num_audios)`, *optional*):
        The length of feature shape of each audio in LLM.
    use_audio_in_video (`bool`, *optional*):
        Whether or not use audio track in video, should same as the parameter in `process_audio_info`.
    video_second_per_grid (`torch.LongTensor` of shape `(num_videos)`, *optional*):
        Number of seconds per grid for each video, used for temporal feature mapping.
    """
    output_router_logits = (
        output_router_logits if output_router_logits is not None else self.config.text_config.output_router_logits
    )
    outputs: MoeModelOutputWithPast = self.model(
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
        use_cache=use_cache,
        use_audio_in_video=use_audio_in_video,
        video_second_per_grid=video_second_per_grid,
        mm_encoder_outputs=mm_encoder_outputs,
        output_router_logits=output_router_logits,
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
            num_items_in_batch=kwargs.get("num_items_in_batch"),
            ignore_index=kwargs.get("ignore_index", -100),
        )
    else:
        # --- Patch.1 ---
        logits = self.lm_head(hidden_states)
        if labels is not None:
            loss = self.loss_function(
                logits=logits, labels=labels, vocab_size=self.config.get_text_config().vocab_size, **kwargs
            )
    # --- Patch.3 ---
    if loss is not None:
        loss = reduce_loss(
            loss,
            kwargs.get("shift_labels", labels),
            num_items_in_batch=kwargs.get("num_items_in_batch"),
            ignore_index=kwargs.get("ignore_index", -100),
        )
    # --- Patch.3 ---

    aux_loss = None
    if output_router_logits:
        # --- Patch.2 ---
        balance = slot_load_balancing_loss if slot_load_balancing_loss.has_kernel else load_balancing_loss_func
        # --- Patch.3 ---
        balance = sequence_parallel_load_balancing(balance)
        # --- Patch.3 ---
        aux_loss = balance(
            outputs.router_logits,
            self.num_experts,
            self.num_experts_per_tok,
            # --- Patch.3 ---
            kwargs.get("token_mask", attention_mask),
            # --- Patch.3 ---
        )
        # --- Patch.2 ---
        if labels is not None:
            loss += self.router_aux_loss_coef * aux_loss.to(loss.device)  # make sure to reside in the same device

    return MoeCausalLMOutputWithPast(
        loss=loss,
        logits=logits,
        aux_loss=aux_loss,
        hidden_states=outputs.hidden_states,
        attentions=outputs.attentions,
        past_key_values=outputs.past_key_values,
        router_logits=outputs.router_logits,
    )


config.override_method(
    "Qwen3OmniMoeThinkerForConditionalGeneration.get_position_id_func",
    replacement=qwen2_5_omni_get_position_id_func,
    name_map=_OF_QWEN2_5_OMNI,
    description="Positions for data transforms",
    add=True,
)
config.override_method(
    "Qwen3OmniMoeThinkerForConditionalGeneration.get_metadata_collate_func",
    replacement=qwen2_5_omni_get_metadata_collate_func,
    name_map=_OF_QWEN2_5_OMNI,
    description="Metadata of pictures and sounds for collate functions",
    add=True,
)


# ================================================================
# Patch: Qwen3OmniMoeThinkerForConditionalGeneration.get_parallel_plan
# 1. new - a trainer asks the model which parameters it may split
# ================================================================
@config.override_method(
    "Qwen3OmniMoeThinkerForConditionalGeneration.get_parallel_plan",
    description="Expert parallel plan for trainers",
    add=True,
)
def qwen3_omni_moe_get_parallel_plan(self):
    # --- Patch.1 ---
    from zoo.qwen3_omni_moe.parallel_plan import get_parallel_plan

    return get_parallel_plan(type(self))
    # --- Patch.1 ---


for _function in ("get_position_id_func", "get_metadata_collate_func"):
    config.allow(
        "PG301",
        "data pipelines call it, and test_zoo_multimodal",
        f"Qwen3OmniMoeThinkerForConditionalGeneration.{_function}",
    )
# Upstream's class of this name has no forward and other parameters, so parity has nothing to compare it with.
config.allow(
    "PG301",
    "test_zoo_omni loads upstream's whole checkpoints into it and compares it with upstream's thinker",
    "Qwen3OmniMoeForConditionalGeneration",
)


# ================================================================
# Patch: Qwen3OmniMoeForConditionalGeneration
# 1. no talker and no vocoder - their tensors in a checkpoint are known and left out
# 2. what needs them refuses and says what to use
# 3. forward, which upstream does not have, is the thinker's - a trainer takes the whole model
# ================================================================
@config.replace_class("Qwen3OmniMoeForConditionalGeneration", description="The thinker alone, trained as a whole")
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
