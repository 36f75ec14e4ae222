"""Qwen3.5 by op slots: text, pictures and videos, with linear attention in most layers.

Where nothing is bound, the generated module runs upstream's own lines. Linear attention takes its fast path from
flash-linear-attention, or from what a training framework imports in its place, and else upstream's functions of torch.
Qwen3.5-MoE shares the patches.

Ranks cannot share its sequences. Linear attention carries a state from each token to the next, and so does the
convolution before it, over the edge of a slice as well: a rank would need whole sequences of a part of their heads and
channels, and nothing here exchanges these. `parallelize` refuses `sp_size` over 1.

    patchgen zoo.qwen3_5.qwen3_5_gpu_patch_gen_config --diff
"""

# As upstream's, keyword arguments have names of parameters, and None stands for a tensor.
# pyright: reportCallIssue=false, reportArgumentType=false, reportUnnecessaryComparison=false

from typing import TYPE_CHECKING

import torch
from patchgen import Edits, PatchConfig
from transformers.modeling_outputs import (
    SequenceClassifierOutputWithPast,
)
from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5Config
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple

from zoo.llama.llama_gpu_patch_gen_config import (
    llama_for_causal_lm_forward,
    llama_for_sequence_classification_forward,
    llama_mlp_forward,
)
from zoo.qwen2_vl.qwen2_vl_gpu_patch_gen_config import (
    Qwen2VLPositions,
    needs_dummy_forward,
    qwen2_vl_get_metadata_collate_func,
    qwen2_vl_get_position_id_func,
    qwen2_vl_model_forward,
    qwen2_vl_vision_dummy_forward,
)
from zoo.qwen3_5.linear_attention import (
    FAST_LINEAR_ATTENTION,
    one_sequence_after_the_other,
    qwen3_5_gated_delta_net_forward,
    use_kernel_func_from_hub_with_fallback,
)

if TYPE_CHECKING:
    from transformers.cache_utils import Cache
    from transformers.modeling_utils import slice_logits_to_keep
    from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5TextModel, Qwen3_5VisionModel
    from transformers.utils import logging
    from transformers.vision_utils import (
        get_vision_cu_seqlens,
        get_vision_interpolation_indices_and_weights,
        get_vision_position_ids,
    )

    from zoo.qwen3_5.generated.patched_modeling_qwen3_5_gpu import (
        slot_causal_lm_loss,
        slot_gated_rms_norm,
        slot_rms_norm,
        slot_seq_cls_loss,
    )

config = PatchConfig(
    source_module="transformers.models.qwen3_5.modeling_qwen3_5",
    target_file="patched_modeling_qwen3_5_gpu.py",
    description="Qwen3.5 with op slots for GPU training",
)
_NAMES = {
    "Llama": "Qwen3_5",
    "Qwen2VL": "Qwen3_5",
    "Qwen2VisionTransformerPretrainedModel": "Qwen3_5VisionModel",
}

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_import("patchgen_core.runtime.parallel", names=["check_position_ids", "reduce_loss", "select_features"])
config.add_import("transformers.utils", names=["logging"])
config.add_import("transformers.vision_utils", names=["get_vision_cu_seqlens"])
config.add_post_import_block(
    """
    slot_rms_norm = OpSlot("rms_norm", "one_plus_weight")
    slot_gated_rms_norm = OpSlot("rms_norm", "standard")
    slot_swiglu_mlp = OpSlot("swiglu_mlp", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    slot_seq_cls_loss = OpSlot("cross_entropy_loss", "seq_cls")
    """
)

# Upstream's decorator of this name imports the fast path of linear attention, from fla and causal_conv1d, and nothing
# else can be named there. Its import goes, and the helper below takes its place: the functions of torch that it
# decorates stay upstream's, and this block says what runs instead of them.
config.drop_import_names("use_kernel_func_from_hub_with_fallback")
config.add_post_import_block(FAST_LINEAR_ATTENTION)
config.add_import("functools", is_from_import=False)
config.add_import("inspect", is_from_import=False)
config.add_helper(one_sequence_after_the_other)
config.add_helper(use_kernel_func_from_hub_with_fallback)

# With kernels of the hub switched on, these would take the place of what is patched below.
config.drop_decorators("Qwen3_5RMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen3_5RMSNormGated", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen3_5GatedDeltaNet", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen3_5GatedDeltaNet", "use_kernelized_func")

# A part of each head is rotated (partial_rotary_factor), and Liger's kernel rotates whole heads: apply_rotary_pos_emb
# stays upstream's. That of the vision tower computes in float32 whatever the dtype is, which no kernel does.

config.override_method(
    "Qwen3_5MLP.forward", replacement=llama_mlp_forward, name_map=_NAMES, description="Op slot for SwiGLU"
)
config.add_helper(needs_dummy_forward)


# ================================================================
# Patch: Qwen3_5RMSNorm.forward
# 1. fused kernel where one is bound - the weight is stored less one
# ================================================================
@config.edit_method("Qwen3_5RMSNorm.forward", description="Op slot for RMSNorm")
def qwen3_5_rms_norm_forward(self, x):
    if slot_rms_norm.has_kernel:
        return slot_rms_norm(x, self.weight, self.eps)
    ...


# ================================================================
# Patch: Qwen3_5RMSNormGated.forward
# 1. fused kernel for the norm where one is bound - its weight is stored as it is; the gate comes after it
# ================================================================
qwen3_5_rms_norm_gated_forward = Edits()


@qwen3_5_rms_norm_gated_forward.edit(
    at="""
    hidden_states = hidden_states.to(torch.float32)
    ...
    hidden_states = self.weight * $NORMED
    """
)
def call_slot_gated_rms_norm(self, hidden_states):
    if slot_gated_rms_norm.has_kernel:
        hidden_states = slot_gated_rms_norm(hidden_states, self.weight, self.variance_epsilon)
    else:
        ...


config.edit_method(
    "Qwen3_5RMSNormGated.forward",
    edit=qwen3_5_rms_norm_gated_forward,
    description="Op slot for the RMSNorm before the gate",
)


config.edit_method(
    "Qwen3_5GatedDeltaNet.forward",
    edit=qwen3_5_gated_delta_net_forward,
    description="Packed sequences reach the convolution",
)


@config.add_helper
class Qwen3_5VisionMetadata:
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
        interp_indices, interp_weights = get_vision_interpolation_indices_and_weights(
            grid_thw,
            num_grid_per_side=int(self.config.num_position_embeddings**0.5),
            mode="bilinear",
            align_corners=True,
            spatial_merge_size=self.config.spatial_merge_size,
        )
        return {
            "interp_indices": interp_indices,
            "interp_weights": interp_weights,
            "position_ids": get_vision_position_ids(grid_thw, self.config.spatial_merge_size),
            "cu_seqlens": get_vision_cu_seqlens(grid_thw),
            "max_seqlen": int((grid_thw[:, 1] * grid_thw[:, 2]).max()),
        }


config.add_helper_after("Qwen3_5Model", Qwen2VLPositions, name_map=_NAMES)
config.override_method(
    "Qwen3_5VisionModel.dummy_forward",
    replacement=qwen2_vl_vision_dummy_forward,
    name_map=_NAMES,
    description="The tower on a batch without pictures",
    add=True,
)


# ================================================================
# Patch: Qwen3_5Model.__init__
# 1. the vision tower and the text model of this module - AutoModel would make upstream's, in which nothing is patched
# ================================================================
@config.override_method("Qwen3_5Model.__init__", description="The patched sub-models instead of upstream's")
def qwen3_5_model_init(self, config: Qwen3_5Config):
    super().__init__(config)
    # --- Patch.1 ---
    self.visual = Qwen3_5VisionModel._from_config(config.vision_config)
    self.language_model = Qwen3_5TextModel._from_config(config.text_config)
    # --- Patch.1 ---
    self.rope_deltas = None  # cache rope_deltas here

    # Initialize weights and apply final processing
    self.post_init()


config.edit_method(
    "Qwen3_5Model.forward",
    edit=qwen2_vl_model_forward,
    name_map=_NAMES,
    description="The vision tower runs on every rank",
)
config.edit_method(
    "Qwen3_5ForCausalLM.forward",
    edit=llama_for_causal_lm_forward,
    name_map=_NAMES,
    description="Op slot for the loss",
)


# ================================================================
# Patch: Qwen3_5ForConditionalGeneration.forward
# 1. fused linear cross entropy where a kernel is bound - no logits are made then
# ================================================================
config.delete_code(
    "Qwen3_5ForConditionalGeneration.forward",
    """
    hidden_states = slice_logits_to_keep(...)
    logits = self.lm_head(...)
    """,
    description="Op slot for the loss",
)


@config.edit_method("Qwen3_5ForConditionalGeneration.forward", at="if labels is not None:")
def qwen3_5_for_conditional_generation_forward(self, labels, logits_to_keep, kwargs, hidden_states, shift_labels):
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


config.override_method(
    "Qwen3_5ForConditionalGeneration.get_position_id_func",
    replacement=qwen2_vl_get_position_id_func,
    name_map=_NAMES,
    description="Positions for data transforms",
    add=True,
)
config.override_method(
    "Qwen3_5ForConditionalGeneration.get_metadata_collate_func",
    replacement=qwen2_vl_get_metadata_collate_func,
    name_map=_NAMES,
    description="Metadata of pictures for collate functions",
    add=True,
)
config.override_method(
    "Qwen3_5TextForSequenceClassification.forward",
    replacement=llama_for_sequence_classification_forward,
    name_map={"Llama": "Qwen3_5Text"},
    description="Op slot for the loss of sequence classification",
)


# ================================================================
# Patch: Qwen3_5ForSequenceClassification.forward
# 1. what follows the model is here - upstream calls GenericForSequenceClassification, whose lines these are
# 2. fused linear cross entropy where a kernel is bound - of each row's last token, in a single-label problem
# ================================================================
@config.override_method(
    "Qwen3_5ForSequenceClassification.forward", description="Op slot for the loss of sequence classification"
)
@can_return_tuple
def qwen3_5_for_sequence_classification_forward(
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
    **kwargs: Unpack[TransformersKwargs],
) -> SequenceClassifierOutputWithPast:
    # --- Patch.1 ---
    labels = kwargs.pop("labels", None)
    transformer_outputs = self.model(
        input_ids,
        attention_mask=attention_mask,
        position_ids=position_ids,
        past_key_values=past_key_values,
        inputs_embeds=inputs_embeds,
        pixel_values=pixel_values,
        pixel_values_videos=pixel_values_videos,
        image_grid_thw=image_grid_thw,
        video_grid_thw=video_grid_thw,
        mm_token_type_ids=mm_token_type_ids,
        **kwargs,
    )
    hidden_states = transformer_outputs.last_hidden_state
    logits = self.score(hidden_states)

    batch_size = logits.shape[0]
    pad_token_id = self.config.get_text_config().pad_token_id
    if pad_token_id is None and batch_size != 1:
        raise ValueError("Cannot handle batch sizes > 1 if no padding token is defined.")
    last_non_pad_token = -1
    if pad_token_id is not None and input_ids is not None:
        # the rightmost token that is not padding, whichever side is padded
        non_pad_mask = (input_ids != pad_token_id).to(logits.device, torch.int32)
        token_indices = torch.arange(input_ids.shape[-1], device=logits.device, dtype=torch.int32)
        last_non_pad_token = (token_indices * non_pad_mask).argmax(-1)
    elif pad_token_id is not None:
        logging.get_logger(__name__).warning_once(
            f"{self.__class__.__name__} will not detect padding tokens in `inputs_embeds`. Results may be "
            "unexpected if using padding tokens in conjunction with `inputs_embeds.`"
        )
    rows = torch.arange(batch_size, device=logits.device)
    pooled_logits = logits[rows, last_non_pad_token]
    # --- Patch.1 ---

    loss = None
    # --- Patch.2 ---
    if labels is not None and slot_seq_cls_loss.has_kernel:
        loss = slot_seq_cls_loss(
            hidden_states[rows, last_non_pad_token],
            self.score.weight,
            labels,
            problem_type=self.config.problem_type,
        )
    # --- Patch.2 ---
    elif labels is not None:
        loss = self.loss_function(logits=logits, labels=labels, pooled_logits=pooled_logits, config=self.config)

    return SequenceClassifierOutputWithPast(
        loss=loss,
        logits=pooled_logits,
        past_key_values=transformer_outputs.past_key_values,
        hidden_states=transformer_outputs.hidden_states,
        attentions=transformer_outputs.attentions,
    )
