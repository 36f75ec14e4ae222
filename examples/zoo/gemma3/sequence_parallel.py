"""Replacements for sequence parallelism in Gemma3: its attention, its text model, and the one that fills pictures in.

Each kind of layer, of a sliding window or not, has a mask of its own and position embeddings of its own. Masks are
those of whole sequences, and a picture is one block in them, whichever ranks hold its tokens.
"""

import torch
from transformers.modeling_outputs import BaseModelOutputWithPast, BaseModelOutputWithPooling
from transformers.models.gemma3.modeling_gemma3 import Gemma3ModelOutputWithPast
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs

SEQUENCE_PARALLEL = (
    "check_position_ids",
    "check_whole_sequence",
    "reduce_loss",
    "select_features",
    "sequence_parallel_attention",
    "slice_position_embeddings",
    "whole_sequence_like",
)
"""What the patches for sequence parallelism call, of ``patchgen_core.runtime.parallel``."""


# ================================================================
# Patch: Gemma3Attention.forward
# 1. under sequence parallelism each rank attends with its heads to whole sequences, of which it holds a slice
# ================================================================
def gemma3_attention_forward(
    self,
    hidden_states: torch.Tensor,
    position_embeddings: torch.Tensor = None,
    attention_mask: torch.Tensor | None = None,
    past_key_values: Cache | None = None,
    **kwargs: Unpack[TransformersKwargs],
) -> tuple[torch.Tensor, torch.Tensor | None, tuple[torch.Tensor] | None]:
    input_shape = hidden_states.shape[:-1]
    hidden_shape = (*input_shape, -1, self.head_dim)

    query_states = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)
    key_states = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)
    value_states = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)

    query_states = self.q_norm(query_states)
    key_states = self.k_norm(key_states)

    cos, sin = position_embeddings
    query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin)

    if past_key_values is not None:
        key_states, value_states = past_key_values.update(key_states, value_states, self.layer_idx)

    attention_interface: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
        self.config._attn_implementation, eager_attention_forward
    )
    # --- Patch.1 ---
    attention_interface = sequence_parallel_attention(attention_interface)
    # --- Patch.1 ---

    attn_output, attn_weights = attention_interface(
        self,
        query_states,
        key_states,
        value_states,
        attention_mask,
        dropout=self.attention_dropout if self.training else 0.0,
        scaling=self.scaling,
        sliding_window=self.sliding_window,
        **kwargs,
    )

    attn_output = attn_output.reshape(*input_shape, -1).contiguous()
    attn_output = self.o_proj(attn_output)
    return attn_output, attn_weights


# ================================================================
# Patch: Gemma3TextModel.forward
# 1. under sequence parallelism positions and masks are those of whole sequences, the rest is this rank's slice
# ================================================================
def gemma3_text_model_forward(
    self,
    input_ids: torch.LongTensor | None = None,
    attention_mask: torch.Tensor | None = None,
    position_ids: torch.LongTensor | None = None,
    past_key_values: Cache | None = None,
    inputs_embeds: torch.Tensor | None = None,
    use_cache: bool | None = None,
    **kwargs: Unpack[TransformersKwargs],
) -> BaseModelOutputWithPast:
    if (input_ids is None) ^ (inputs_embeds is not None):
        raise ValueError("You must specify exactly one of input_ids or inputs_embeds")

    if inputs_embeds is None:
        inputs_embeds = self.embed_tokens(input_ids)

    if use_cache and past_key_values is None:
        past_key_values = DynamicCache(config=self.config)

    # --- Patch.1 ---
    check_position_ids(position_ids, inputs_embeds)
    # --- Patch.1 ---
    if position_ids is None:
        past_seen_tokens = past_key_values.get_seq_length() if past_key_values is not None else 0
        position_ids = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device) + past_seen_tokens
        position_ids = position_ids.unsqueeze(0)

    # It may already have been prepared by e.g. `generate`
    if not isinstance(causal_mask_mapping := attention_mask, dict):
        # Prepare mask arguments
        mask_kwargs = {
            "config": self.config,
            # --- Patch.1 ---
            "inputs_embeds": whole_sequence_like(inputs_embeds),
            # --- Patch.1 ---
            "attention_mask": attention_mask,
            "past_key_values": past_key_values,
            "position_ids": position_ids,
        }
        sliding_mask_kwargs = mask_kwargs.copy()

        if self.config.use_bidirectional_attention:
            mask_kwargs["or_mask_function"] = lambda *args: torch.tensor(True, dtype=torch.bool)
            sliding_mask_kwargs["or_mask_function"] = _bidirectional_window_overlay(self.config.sliding_window)

        # Create the masks
        causal_mask_mapping = {
            "full_attention": create_causal_mask(**mask_kwargs),
            "sliding_attention": create_sliding_window_causal_mask(**sliding_mask_kwargs),
        }

    # embed positions
    hidden_states = inputs_embeds
    position_embeddings = {}
    for layer_type in set(self.config.layer_types):
        position_embeddings[layer_type] = self.rotary_emb(hidden_states, position_ids, layer_type)
        # --- Patch.1 ---
        position_embeddings[layer_type] = slice_position_embeddings(position_embeddings[layer_type])
        # --- Patch.1 ---

    for i, decoder_layer in enumerate(self.layers[: self.config.num_hidden_layers]):
        hidden_states = decoder_layer(
            hidden_states,
            attention_mask=causal_mask_mapping[self.config.layer_types[i]],
            position_embeddings=position_embeddings[self.config.layer_types[i]],
            position_ids=position_ids,
            past_key_values=past_key_values,
            **kwargs,
        )

    hidden_states = self.norm(hidden_states)

    return BaseModelOutputWithPast(
        last_hidden_state=hidden_states,
        past_key_values=past_key_values,
    )


# ================================================================
# Patch: Gemma3Model.get_placeholder_mask
# 1. without features it only tells where the placeholders are
# ================================================================
def gemma3_get_placeholder_mask(
    self,
    input_ids: torch.LongTensor,
    inputs_embeds: torch.Tensor,
    # --- Patch.1 ---
    image_features: torch.Tensor | None = None,
    # --- Patch.1 ---
):
    """
    Obtains multimodal placeholder mask from `input_ids` or `inputs_embeds`, and checks that the placeholder token
    count is equal to the length of multimodal features. If the lengths are different, an error is raised.
    """
    if input_ids is None:
        special_image_mask = inputs_embeds == self.get_input_embeddings()(
            torch.full((), self.config.image_token_id, dtype=torch.long, device=inputs_embeds.device)
        )
        special_image_mask = special_image_mask.all(-1)
    else:
        special_image_mask = input_ids == self.config.image_token_id

    # --- Patch.1 ---
    if image_features is None:
        return special_image_mask
    # --- Patch.1 ---
    n_image_tokens = special_image_mask.sum()
    n_image_features = image_features.shape[0] * image_features.shape[1]
    special_image_mask = special_image_mask.unsqueeze(-1).to(inputs_embeds.device)
    torch_compilable_check(
        n_image_tokens * inputs_embeds.shape[-1] == image_features.numel(),
        f"Image features and image tokens do not match, tokens: {n_image_tokens}, features: {n_image_features}",
    )
    return special_image_mask


# ================================================================
# Patch: Gemma3Model.forward
# 1. the tower runs also where a rank has no picture
# 2. under sequence parallelism features go to the placeholders of this rank's slice, and masks are of the whole
# ================================================================
def gemma3_model_forward(
    self,
    input_ids: torch.LongTensor | None = None,
    pixel_values: torch.Tensor | None = None,
    attention_mask: torch.Tensor | None = None,
    position_ids: torch.LongTensor | None = None,
    past_key_values: Cache | None = None,
    token_type_ids: torch.LongTensor | None = None,
    inputs_embeds: torch.Tensor | None = None,
    labels: torch.LongTensor | None = None,
    use_cache: bool | None = None,
    mm_encoder_outputs: dict[str, BaseModelOutputWithPooling] | None = None,
    **kwargs: Unpack[TransformersKwargs],
) -> tuple | Gemma3ModelOutputWithPast:
    if (input_ids is None) ^ (inputs_embeds is not None):
        raise ValueError("You must specify exactly one of input_ids or inputs_embeds")

    if pixel_values is not None and mm_encoder_outputs is not None:
        raise ValueError("You cannot specify both pixel_values and mm_encoder_outputs at the same time")

    # Replace image id with PAD if the image token if OOV, to avoid index-errors
    if input_ids is not None and self.config.image_token_id >= self.vocab_size:
        special_image_mask = input_ids == self.config.image_token_id
        llm_input_ids = input_ids.clone()
        llm_input_ids[special_image_mask] = 0
    else:
        llm_input_ids = input_ids

    if inputs_embeds is None:
        inputs_embeds = self.get_input_embeddings()(llm_input_ids)

    # --- Patch.1 ---
    runs_dummy = mm_encoder_outputs is None and needs_dummy_forward(self)
    # --- Patch.1 ---
    # Merge text and images
    mm_encoder_outputs = mm_encoder_outputs if mm_encoder_outputs is not None else {}
    if mm_encoder_outputs.get("image") is None and pixel_values is not None:
        mm_encoder_outputs["image"] = self.get_image_features(pixel_values, return_dict=True)

    if mm_encoder_outputs.get("image") is not None:
        image_features = mm_encoder_outputs["image"].pooler_output.to(inputs_embeds.device, inputs_embeds.dtype)
        # --- Patch.2 ---
        is_placeholder = self.get_placeholder_mask(input_ids, inputs_embeds=inputs_embeds)
        own_features = select_features(image_features.flatten(0, 1), is_placeholder)[None]
        special_image_mask = self.get_placeholder_mask(
            input_ids, inputs_embeds=inputs_embeds, image_features=own_features
        )
        inputs_embeds = inputs_embeds.masked_scatter(special_image_mask, own_features)
        # --- Patch.2 ---
    # --- Patch.1 ---
    elif runs_dummy:
        inputs_embeds = inputs_embeds + self.dummy_forward().to(inputs_embeds.device, inputs_embeds.dtype)
    # --- Patch.1 ---

    # --- Patch.2 ---
    check_position_ids(position_ids, inputs_embeds)
    check_whole_sequence("token_type_ids", token_type_ids, inputs_embeds)
    # --- Patch.2 ---
    # It may already have been prepared by e.g. `generate`
    if not isinstance(causal_mask_mapping := attention_mask, dict):
        mask_kwargs = {
            "config": self.config.get_text_config(),
            # --- Patch.2 ---
            "inputs_embeds": whole_sequence_like(inputs_embeds),
            # --- Patch.2 ---
            "attention_mask": attention_mask,
            "past_key_values": past_key_values,
            "position_ids": position_ids,
        }

        if token_type_ids is not None:
            block_sequence_ids = get_block_sequence_ids_for_mask(token_type_ids, device=inputs_embeds.device)
            causal_mask_mapping = create_masks_for_vision_model(
                block_sequence_ids=block_sequence_ids,
                **mask_kwargs,
            )
        else:
            causal_mask_mapping = create_masks_for_generate(**mask_kwargs)

    outputs = self.language_model(
        attention_mask=causal_mask_mapping,
        position_ids=position_ids,
        past_key_values=past_key_values,
        inputs_embeds=inputs_embeds,
        use_cache=use_cache,
        return_dict=True,
        **kwargs,
    )

    return Gemma3ModelOutputWithPast(
        last_hidden_state=outputs.last_hidden_state,
        past_key_values=outputs.past_key_values,
        hidden_states=outputs.hidden_states,
        attentions=outputs.attentions,
        image_hidden_states=image_features if mm_encoder_outputs.get("image") is not None else None,
    )
