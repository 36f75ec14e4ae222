"""Llama by op slots: upstream's code stays, and a kernel takes over where one is bound. Ranks may share its sequences.

Where nothing is bound, the generated module runs upstream's own lines. The dense models of the zoo have the same
norm, MLP, rotary embedding and heads: they import these patches.

    patchgen zoo.llama.llama_gpu_patch_gen_config --diff
"""

# Upstream's keyword arguments have names that its parameters have.
# pyright: reportCallIssue=false

from typing import TYPE_CHECKING

import torch
from patchgen import Edits, PatchConfig
from transformers.modeling_outputs import (
    SequenceClassifierOutputWithPast,
)
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, auto_docstring, can_return_tuple

if TYPE_CHECKING:
    from patchgen_core.runtime.parallel import (
        check_position_ids,
        reduce_loss,
        sequence_parallel_attention,
        slice_position_embeddings,
    )
    from transformers.cache_utils import Cache
    from transformers.modeling_utils import slice_logits_to_keep
    from transformers.utils import logging

    from zoo.llama.generated.patched_modeling_llama_gpu import (
        slot_causal_lm_loss,
        slot_rms_norm,
        slot_rotary_pos_emb,
        slot_seq_cls_loss,
        slot_swiglu_mlp,
    )

config = PatchConfig(
    source_module="transformers.models.llama.modeling_llama",
    target_file="patched_modeling_llama_gpu.py",
    description="Llama with op slots for GPU training",
)

SEQUENCE_PARALLEL = (
    "check_position_ids",
    "reduce_loss",
    "sequence_parallel_attention",
    "slice_position_embeddings",
    "whole_sequence_like",
)
"""What the patches for sequence parallelism call, of ``patchgen_core.runtime.parallel``."""

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_import("patchgen_core.runtime.parallel", names=list(SEQUENCE_PARALLEL))
config.add_import("transformers.modeling_outputs", names=["SequenceClassifierOutputWithPast"])
config.add_post_import_block(
    """
    slot_rms_norm = OpSlot("rms_norm", "standard")
    slot_rotary_pos_emb = OpSlot("rotary_pos_emb", "full")
    slot_swiglu_mlp = OpSlot("swiglu_mlp", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    slot_seq_cls_loss = OpSlot("cross_entropy_loss", "seq_cls")
    """
)

# With kernels of the hub switched on, these would take the place of what is patched below.
config.drop_decorators("LlamaRMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("LlamaAttention", "use_kernelized_func")


# ================================================================
# Patch: LlamaRMSNorm.forward
# 1. fused kernel where one is bound
# ================================================================
@config.edit_method("LlamaRMSNorm.forward", description="Op slot for RMSNorm")
def llama_rms_norm_forward(self, hidden_states):
    if slot_rms_norm.has_kernel:
        return slot_rms_norm(hidden_states, self.weight, self.variance_epsilon)
    ...


# ================================================================
# Patch: LlamaMLP.forward
# 1. fused SiLU and product where a kernel is bound
# ================================================================
@config.override_method("LlamaMLP.forward", description="Op slot for SwiGLU")
def llama_mlp_forward(self, x):
    # --- Patch.1 ---
    if slot_swiglu_mlp.has_kernel:
        if self.config.hidden_act not in ("silu", "swish"):
            raise ValueError(f"slot_swiglu_mlp computes SwiGLU, and hidden_act is {self.config.hidden_act!r}")
        return self.down_proj(slot_swiglu_mlp(self.gate_proj(x), self.up_proj(x)))
    # --- Patch.1 ---
    down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
    return down_proj


# ================================================================
# Patch: apply_rotary_pos_emb
# 1. fused kernel where one is bound
# ================================================================
llama_apply_rotary_pos_emb = Edits()
llama_apply_rotary_pos_emb.drop_decorators("use_kernel_forward_from_hub")


@llama_apply_rotary_pos_emb.edit
def call_slot_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim):
    if slot_rotary_pos_emb.has_kernel:
        return slot_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)
    ...


config.edit_function(
    "apply_rotary_pos_emb", edit=llama_apply_rotary_pos_emb, description="Op slot for the rotary embedding"
)


# ================================================================
# Patch: LlamaAttention.forward
# 1. under sequence parallelism each rank attends with its heads to whole sequences, of which it holds a slice
# ================================================================
@config.edit_method(
    "LlamaAttention.forward",
    at="attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(...)",
    description="Sequence parallel attention",
)
def llama_attention_forward(attention_interface):
    ...
    attention_interface = sequence_parallel_attention(attention_interface)


# ================================================================
# Patch: LlamaModel.forward
# 1. under sequence parallelism positions and masks are those of whole sequences, the rest is this rank's slice
# ================================================================
llama_model_forward = Edits()


@llama_model_forward.edit(at="if use_cache and past_key_values is None:")
def call_check_position_ids(position_ids, inputs_embeds):
    ...
    check_position_ids(position_ids, inputs_embeds)


llama_model_forward.replace_code(
    "create_causal_mask(..., inputs_embeds=inputs_embeds)",
    "create_causal_mask(..., inputs_embeds=whole_sequence_like(inputs_embeds))",
)


@llama_model_forward.edit(at="position_embeddings = self.rotary_emb(...)")
def call_slice_position_embeddings(position_embeddings):
    ...
    position_embeddings = slice_position_embeddings(position_embeddings)


config.edit_method(
    "LlamaModel.forward", edit=llama_model_forward, description="Positions and masks of whole sequences"
)


# ================================================================
# Patch: LlamaForCausalLM.forward
# 1. fused linear cross entropy where a kernel is bound - no logits are made then
# 2. under sequence parallelism the loss is that of whole sequences
# ================================================================
llama_for_causal_lm_forward = Edits()
llama_for_causal_lm_forward.delete_code("""
    hidden_states = slice_logits_to_keep(...)
    logits = self.lm_head(...)
    """)


@llama_for_causal_lm_forward.edit(at="if labels is not None:")
def call_slot_causal_lm_loss(self, labels, logits_to_keep, kwargs, hidden_states, loss, shift_labels):
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


config.edit_method("LlamaForCausalLM.forward", edit=llama_for_causal_lm_forward, description="Op slot for the loss")


# ================================================================
# Patch: LlamaForSequenceClassification.forward
# 1. new here - upstream inherits it from GenericForSequenceClassification, whose lines these are
# 2. fused linear cross entropy where a kernel is bound - of each row's last token, in a single-label problem
# ================================================================
@config.override_method(
    "LlamaForSequenceClassification.forward", description="Op slot for the loss of sequence classification"
)
@can_return_tuple
@auto_docstring
def llama_for_sequence_classification_forward(
    self,
    input_ids: torch.LongTensor | None = None,
    attention_mask: torch.Tensor | None = None,
    position_ids: torch.LongTensor | None = None,
    past_key_values: Cache | None = None,
    inputs_embeds: torch.Tensor | None = None,
    labels: torch.LongTensor | None = None,
    use_cache: bool | None = None,
    **kwargs: Unpack[TransformersKwargs],
) -> SequenceClassifierOutputWithPast:
    # --- Patch.1 ---
    transformer_outputs = self.model(
        input_ids,
        attention_mask=attention_mask,
        position_ids=position_ids,
        past_key_values=past_key_values,
        inputs_embeds=inputs_embeds,
        use_cache=use_cache,
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
