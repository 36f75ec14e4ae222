"""Replacements for the forward of Qwen3-Omni-MoE's thinker: the model, and the model with its head."""

import torch
from transformers.modeling_outputs import (
    BaseModelOutputWithPooling,
    MoeCausalLMOutputWithPast,
    MoeModelOutputWithPast,
)


# ================================================================
# Patch: Qwen3OmniMoeThinkerModel.forward
# 1. the towers run for sounds, pictures and videos, once each, also where a rank has none of them
# 2. under sequence parallelism positions come from outside, and features go to the placeholders of this rank's slice
# ================================================================
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
