"""Replacements for sequence parallelism in Gemma3: its attention, its text model, and the one that fills pictures in.

Each kind of layer, of a sliding window or not, has a mask of its own and position embeddings of its own. Masks are
those of whole sequences, and a picture is one block in them, whichever ranks hold its tokens.
"""

from typing import TYPE_CHECKING

import torch
from patchgen import Edits

if TYPE_CHECKING:
    from patchgen_core.runtime.parallel import (
        check_position_ids,
        check_whole_sequence,
        select_features,
        sequence_parallel_attention,
        slice_position_embeddings,
    )
    from transformers.utils import torch_compilable_check

    from zoo.qwen2_vl.qwen2_vl_gpu_patch_gen_config import needs_dummy_forward

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
gemma3_attention_forward = Edits()


@gemma3_attention_forward.edit(at="attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(...)")
def call_sequence_parallel_attention(attention_interface):
    ...
    attention_interface = sequence_parallel_attention(attention_interface)


# ================================================================
# Patch: Gemma3TextModel.forward
# 1. under sequence parallelism positions and masks are those of whole sequences, the rest is this rank's slice
# ================================================================
gemma3_text_model_forward = Edits()


@gemma3_text_model_forward.edit(at="if use_cache and past_key_values is None:")
def call_check_position_ids(position_ids, inputs_embeds):
    ...
    check_position_ids(position_ids, inputs_embeds)


gemma3_text_model_forward.replace_code(
    '"inputs_embeds": inputs_embeds',
    '"inputs_embeds": whole_sequence_like(inputs_embeds)',
)


@gemma3_text_model_forward.edit(at="position_embeddings[layer_type] = self.rotary_emb(...)")
def call_slice_position_embeddings(position_embeddings, layer_type):
    ...
    position_embeddings[layer_type] = slice_position_embeddings(position_embeddings[layer_type])


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
gemma3_model_forward = Edits()


@gemma3_model_forward.edit(at="if inputs_embeds is None:")
def call_needs_dummy_forward(self, mm_encoder_outputs):
    ...
    runs_dummy = mm_encoder_outputs is None and needs_dummy_forward(self)


@gemma3_model_forward.edit(
    at="""
    special_image_mask = self.get_placeholder_mask(...)
    inputs_embeds = inputs_embeds.masked_scatter(...)
    """
)
def select_picture_features(self, input_ids, inputs_embeds, image_features, special_image_mask):
    is_placeholder = self.get_placeholder_mask(input_ids, inputs_embeds=inputs_embeds)
    own_features = select_features(image_features.flatten(0, 1), is_placeholder)[None]
    special_image_mask = self.get_placeholder_mask(input_ids, inputs_embeds=inputs_embeds, image_features=own_features)
    inputs_embeds = inputs_embeds.masked_scatter(special_image_mask, own_features)


@gemma3_model_forward.edit(at='if mm_encoder_outputs.get("image") is not None:')
def run_without_pictures(self, inputs_embeds, runs_dummy):
    if ...:
        ...
    elif runs_dummy:
        inputs_embeds = inputs_embeds + self.dummy_forward().to(inputs_embeds.device, inputs_embeds.dtype)


@gemma3_model_forward.edit(at="if not isinstance(causal_mask_mapping := attention_mask, dict):")
def check_inputs(position_ids, token_type_ids, inputs_embeds):
    check_position_ids(position_ids, inputs_embeds)
    check_whole_sequence("token_type_ids", token_type_ids, inputs_embeds)
    ...


gemma3_model_forward.replace_code(
    '"inputs_embeds": inputs_embeds',
    '"inputs_embeds": whole_sequence_like(inputs_embeds)',
)
