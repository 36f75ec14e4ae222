"""Llama by op slots: upstream's code stays, and a kernel takes over where one is bound.

Where nothing is bound, the generated module runs upstream's own lines. The dense models of the zoo have the same
norm, MLP, rotary embedding and heads: they import these patches.

    patchgen zoo.llama.llama_gpu_patch_gen_config --diff
"""

import torch
from patchgen import PatchConfig
from transformers.modeling_outputs import (
    BaseModelOutputWithPast,
    CausalLMOutputWithPast,
    SequenceClassifierOutputWithPast,
)
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, auto_docstring, can_return_tuple

config = PatchConfig(
    source_module="transformers.models.llama.modeling_llama",
    target_file="patched_modeling_llama_gpu.py",
    description="Llama with op slots for GPU training",
)

config.add_import("patchgen_core.ops", names=["OpSlot"])
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
@config.override_method("LlamaRMSNorm.forward", description="Op slot for RMSNorm")
def llama_rms_norm_forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
    # --- Patch.1 ---
    if slot_rms_norm.has_kernel:
        return slot_rms_norm(hidden_states, self.weight, self.variance_epsilon)
    # --- Patch.1 ---
    input_dtype = hidden_states.dtype
    hidden_states = hidden_states.to(torch.float32)
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
    return self.weight * hidden_states.to(input_dtype)


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
@config.replace_function("apply_rotary_pos_emb", description="Op slot for the rotary embedding")
def llama_apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    """Applies Rotary Position Embedding to the query and key tensors.

    Args:
        q (`torch.Tensor`): The query tensor.
        k (`torch.Tensor`): The key tensor.
        cos (`torch.Tensor`): The cosine part of the rotary embedding.
        sin (`torch.Tensor`): The sine part of the rotary embedding.
        unsqueeze_dim (`int`, *optional*, defaults to 1):
            The 'unsqueeze_dim' argument specifies the dimension along which to unsqueeze cos[position_ids] and
            sin[position_ids] so that they can be properly broadcasted to the dimensions of q and k. For example, note
            that cos[position_ids] and sin[position_ids] have the shape [batch_size, seq_len, head_dim]. Then, if q and
            k have the shape [batch_size, heads, seq_len, head_dim], then setting unsqueeze_dim=1 makes
            cos[position_ids] and sin[position_ids] broadcastable to the shapes of q and k. Similarly, if q and k have
            the shape [batch_size, seq_len, heads, head_dim], then set unsqueeze_dim=2.
    Returns:
        `tuple(torch.Tensor)` comprising of the query and key tensors rotated using the Rotary Position Embedding.
    """
    # --- Patch.1 ---
    if slot_rotary_pos_emb.has_kernel:
        return slot_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)
    # --- Patch.1 ---
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed, k_embed


# ================================================================
# Patch: LlamaForCausalLM.forward
# 1. fused linear cross entropy where a kernel is bound - no logits are made then
# ================================================================
@config.override_method("LlamaForCausalLM.forward", description="Op slot for the loss")
def llama_for_causal_lm_forward(
    self,
    input_ids: torch.LongTensor | None = None,
    attention_mask: torch.Tensor | None = None,
    position_ids: torch.LongTensor | None = None,
    past_key_values: Cache | None = None,
    inputs_embeds: torch.FloatTensor | None = None,
    labels: torch.LongTensor | None = None,
    use_cache: bool | None = None,
    logits_to_keep: int | torch.Tensor = 0,
    **kwargs: Unpack[TransformersKwargs],
) -> CausalLMOutputWithPast:
    outputs: BaseModelOutputWithPast = self.model(
        input_ids=input_ids,
        attention_mask=attention_mask,
        position_ids=position_ids,
        past_key_values=past_key_values,
        inputs_embeds=inputs_embeds,
        use_cache=use_cache,
        **kwargs,
    )

    hidden_states = outputs.last_hidden_state
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
            logits_to_keep=logits_to_keep,
            num_items_in_batch=kwargs.get("num_items_in_batch"),
            ignore_index=kwargs.get("ignore_index", -100),
        )
    else:
        # --- Patch.1 ---
        # Only compute necessary logits, and do not upcast them to float if we are not computing the loss
        slice_indices = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(hidden_states[:, slice_indices, :])
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)

    return CausalLMOutputWithPast(
        loss=loss,
        logits=logits,
        past_key_values=outputs.past_key_values,
        hidden_states=outputs.hidden_states,
        attentions=outputs.attentions,
    )


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
    inputs_embeds: torch.FloatTensor | None = None,
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
