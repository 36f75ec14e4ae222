"""Qwen3 by op slots: norm, MLP and rotary embedding are those of Qwen3-MoE, and so are their patches.

Where nothing is bound, the generated module runs upstream's own lines.

    patchgen zoo.qwen3.qwen3_gpu_patch_gen_config --diff
"""

import torch
from patchgen import PatchConfig
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs

from zoo.qwen3_moe.qwen3_moe_gpu_patch_gen_config import (
    qwen3_moe_apply_rotary_pos_emb,
    qwen3_moe_mlp_forward,
    qwen3_moe_rms_norm_forward,
)

config = PatchConfig(
    source_module="transformers.models.qwen3.modeling_qwen3",
    target_file="patched_modeling_qwen3_gpu.py",
    description="Qwen3 with op slots for GPU training",
)

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_post_import_block(
    """
    slot_rms_norm = OpSlot("rms_norm", "standard")
    slot_rotary_pos_emb = OpSlot("rotary_pos_emb", "full")
    slot_swiglu_mlp = OpSlot("swiglu_mlp", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    """
)

# With kernels of the hub switched on, these would take the place of what is patched below.
config.drop_decorators("Qwen3RMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen3Attention", "use_kernelized_func")

config.override_method(
    "Qwen3RMSNorm.forward", replacement=qwen3_moe_rms_norm_forward, description="Op slot for RMSNorm"
)
config.override_method("Qwen3MLP.forward", replacement=qwen3_moe_mlp_forward, description="Op slot for SwiGLU")
config.replace_function(
    "apply_rotary_pos_emb", replacement=qwen3_moe_apply_rotary_pos_emb, description="Op slot for the rotary embedding"
)


# ================================================================
# Patch: Qwen3ForCausalLM.forward
# 1. fused linear cross entropy where a kernel is bound - no logits are made then
# ================================================================
@config.override_method("Qwen3ForCausalLM.forward", description="Op slot for the loss")
def qwen3_for_causal_lm_forward(
    self,
    input_ids: torch.LongTensor | None = None,
    attention_mask: torch.Tensor | None = None,
    position_ids: torch.LongTensor | None = None,
    past_key_values: Cache | None = None,
    inputs_embeds: torch.Tensor | None = None,
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
        hidden_states = slice_logits_to_keep(hidden_states, logits_to_keep)
        logits = self.lm_head(hidden_states)
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)

    return CausalLMOutputWithPast(
        loss=loss,
        logits=logits,
        past_key_values=outputs.past_key_values,
        hidden_states=outputs.hidden_states,
        attentions=outputs.attentions,
    )
