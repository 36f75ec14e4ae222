"""Gemma3 by op slots: a norm that scales by 1 + weight, GEGLU, and losses whose logits may be capped.

Where nothing is bound, the generated module runs upstream's own lines. The SigLIP tower comes from a module of its
own in transformers, made by ``AutoModel``: nothing here reaches into it. Ranks may share sequences; each of them then
runs the tower on all pictures, which have few tokens, and takes the features of its slice.

    patchgen zoo.gemma3.gemma3_gpu_patch_gen_config --diff
"""

# A configuration's parts may be dicts, to upstream.
# pyright: reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

from typing import TYPE_CHECKING

import torch
from patchgen import PatchConfig
from transformers.models.gemma3.configuration_gemma3 import Gemma3Config

from zoo.gemma3.sequence_parallel import (
    SEQUENCE_PARALLEL,
    gemma3_attention_forward,
    gemma3_get_placeholder_mask,
    gemma3_model_forward,
    gemma3_text_model_forward,
)
from zoo.llama.llama_gpu_patch_gen_config import (
    llama_apply_rotary_pos_emb,
    llama_for_sequence_classification_forward,
)
from zoo.qwen2_vl.qwen2_vl_gpu_patch_gen_config import needs_dummy_forward

if TYPE_CHECKING:
    from patchgen_core.runtime.parallel import reduce_loss
    from transformers.modeling_utils import slice_logits_to_keep
    from transformers.models.auto import AutoModel
    from transformers.models.gemma3.modeling_gemma3 import Gemma3MultiModalProjector, Gemma3TextModel

    from zoo.gemma3.generated.patched_modeling_gemma3_gpu import slot_causal_lm_loss, slot_geglu_mlp, slot_rms_norm

# No checkpoint of Gemma3 caps its logits, but the text model's head can: the small model does.
config = PatchConfig(
    source_module="transformers.models.gemma3.modeling_gemma3",
    target_file="patched_modeling_gemma3_gpu.py",
    description="Gemma3 with op slots for GPU training",
    toy_config={"text_config": {"final_logit_softcapping": 3.0}},
)

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_import("patchgen_core.runtime.parallel", names=list(SEQUENCE_PARALLEL))
config.add_import("transformers.utils", names=["logging"])
config.add_post_import_block(
    """
    slot_rms_norm = OpSlot("rms_norm", "one_plus_weight")
    slot_rotary_pos_emb = OpSlot("rotary_pos_emb", "full")
    slot_geglu_mlp = OpSlot("geglu_mlp", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    slot_seq_cls_loss = OpSlot("cross_entropy_loss", "seq_cls")
    """
)
config.add_helper(needs_dummy_forward)

# With kernels of the hub switched on, this would take the place of what is patched below.
config.drop_decorators("Gemma3Attention", "use_kernelized_func")


# ================================================================
# Patch: Gemma3RMSNorm.forward
# 1. fused kernel where one is bound - of 1 + weight, all in float32
# ================================================================
@config.edit_method("Gemma3RMSNorm.forward", description="Op slot for RMSNorm")
def gemma3_rms_norm_forward(self, x):
    if slot_rms_norm.has_kernel:
        return slot_rms_norm(x, self.weight, self.eps)
    ...


# ================================================================
# Patch: Gemma3MLP.forward
# 1. fused GELU and product where a kernel is bound
# ================================================================
@config.override_method("Gemma3MLP.forward", description="Op slot for GEGLU")
def gemma3_mlp_forward(self, x):
    # --- Patch.1 ---
    if slot_geglu_mlp.has_kernel:
        if self.config.hidden_activation != "gelu_pytorch_tanh":
            raise ValueError(f"slot_geglu_mlp computes gelu_pytorch_tanh, not {self.config.hidden_activation!r}")
        return self.down_proj(slot_geglu_mlp(self.gate_proj(x), self.up_proj(x)))
    # --- Patch.1 ---
    down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
    return down_proj


config.edit_function(
    "apply_rotary_pos_emb", edit=llama_apply_rotary_pos_emb, description="Op slot for the rotary embedding"
)
config.edit_method("Gemma3Attention.forward", edit=gemma3_attention_forward, description="Sequence parallel attention")
config.edit_method(
    "Gemma3TextModel.forward",
    edit=gemma3_text_model_forward,
    description="Positions and masks of whole sequences",
)


# ================================================================
# Patch: Gemma3ForCausalLM.forward
# 1. fused linear cross entropy where a kernel is bound, with the cap of the logits - no logits are made then
# 2. under sequence parallelism the loss is that of whole sequences
# ================================================================
config.delete_code(
    "Gemma3ForCausalLM.forward",
    """
    hidden_states = slice_logits_to_keep(...)
    logits = self.lm_head(...)
    if self.config.final_logit_softcapping is not None:
    """,
    description="Op slot for the loss",
)


@config.edit_method("Gemma3ForCausalLM.forward", at="if labels is not None:")
def gemma3_for_causal_lm_forward(self, labels, logits_to_keep, kwargs, hidden_states, loss, shift_labels):
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
            softcap=self.config.final_logit_softcapping,
        )
    else:
        hidden_states = slice_logits_to_keep(hidden_states, logits_to_keep)
        logits = self.lm_head(hidden_states)
        if self.config.final_logit_softcapping is not None:
            logits = logits / self.config.final_logit_softcapping
            logits = torch.tanh(logits)
            logits = logits * self.config.final_logit_softcapping

        ...
    if loss is not None:
        loss = reduce_loss(
            loss,
            kwargs.get("shift_labels", labels),
            num_items_in_batch=kwargs.get("num_items_in_batch"),
            ignore_index=kwargs.get("ignore_index", -100),
        )


# ================================================================
# Patch: Gemma3Model.__init__
# 1. the text model of this module - AutoModel would make upstream's, in which nothing is patched
# ================================================================
@config.override_method("Gemma3Model.__init__", description="The patched text model instead of upstream's")
def gemma3_model_init(self, config: Gemma3Config):
    super().__init__(config)
    self.vision_tower = AutoModel.from_config(config.vision_config)
    self.multi_modal_projector = Gemma3MultiModalProjector(config)
    self.vocab_size = config.text_config.vocab_size
    # --- Patch.1 ---
    self.language_model = Gemma3TextModel._from_config(config.text_config)
    # --- Patch.1 ---
    self.post_init()


# ================================================================
# Patch: Gemma3Model.dummy_forward
# 1. new - a rank without pictures takes part in what the ranks of a sharded tower exchange. It is a method of the
#    model that owns the tower, as the tower's own class is not in this module
# ================================================================
@config.override_method("Gemma3Model.dummy_forward", description="The tower on a batch without pictures", add=True)
def gemma3_model_dummy_forward(self) -> torch.Tensor:
    """A zero to which every parameter contributes that a picture goes through, of a blank picture."""
    # --- Patch.1 ---
    weight, vision = self.vision_tower.get_input_embeddings().weight, self.config.vision_config
    pixel_values = torch.zeros(
        (1, vision.num_channels, vision.image_size, vision.image_size), dtype=weight.dtype, device=weight.device
    )
    return self.get_image_features(pixel_values, return_dict=True).pooler_output.mean() * 0.0
    # --- Patch.1 ---


config.override_method(
    "Gemma3Model.get_placeholder_mask",
    replacement=gemma3_get_placeholder_mask,
    description="Where a slice has placeholders, before their features are known",
)
config.edit_method("Gemma3Model.forward", edit=gemma3_model_forward, description="The vision tower runs on every rank")


# ================================================================
# Patch: Gemma3ForConditionalGeneration.forward
# 1. fused linear cross entropy where a kernel is bound - no logits are made then. Upstream caps no logits here
# 2. under sequence parallelism the loss is that of whole sequences
# ================================================================
config.delete_code(
    "Gemma3ForConditionalGeneration.forward",
    """
    hidden_states = slice_logits_to_keep(...)
    logits = self.lm_head(...)
    """,
    description="Op slot for the loss",
)


@config.edit_method("Gemma3ForConditionalGeneration.forward", at="if labels is not None:")
def gemma3_for_conditional_generation_forward(self, labels, logits_to_keep, kwargs, hidden_states, loss, shift_labels):
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
    if loss is not None:
        loss = reduce_loss(
            loss,
            kwargs.get("shift_labels", labels),
            num_items_in_batch=kwargs.get("num_items_in_batch"),
            ignore_index=kwargs.get("ignore_index", -100),
        )


config.override_method(
    "Gemma3TextForSequenceClassification.forward",
    replacement=llama_for_sequence_classification_forward,
    name_map={"Llama": "Gemma3Text"},
    description="Op slot for the loss of sequence classification",
)


config.override_method(
    "Gemma3ForSequenceClassification.classify_sequences",
    replacement=llama_for_sequence_classification_forward,
    name_map={"Llama": "Gemma3Text"},
    description="The patched forward of Gemma3TextForSequenceClassification, for forward to call",
    add=True,
)


# ================================================================
# Patch: Gemma3ForSequenceClassification.forward
# 1. classify_sequences in place of the forward of GenericForSequenceClassification
# ================================================================
config.replace_code(
    "Gemma3ForSequenceClassification.forward",
    "super().forward(...)",
    "self.classify_sequences(...)",
    description="Op slot for the loss of sequence classification",
)
