"""Qwen3-MoE by op slots: norm, MLP and rotary embedding are those of Llama, and so are their patches.

Where nothing is bound, the generated module runs upstream's own lines. Ranks may share its experts and its sequences,
also both at once; attention is Qwen3's. What balances the experts is a loss of all tokens of a batch: ranks add up how
often each expert is chosen and how probable it is, two numbers for each, where gathering the router logits of all
layers would take a number for each token as well.

    patchgen zoo.qwen3_moe.qwen3_moe_gpu_patch_gen_config --diff
"""

# Upstream's loss takes tuples of one tensor, by its annotation.
# pyright: reportArgumentType=false

from typing import TYPE_CHECKING

from patchgen import Edits, PatchConfig

from zoo.llama.llama_gpu_patch_gen_config import (
    SEQUENCE_PARALLEL,
    llama_apply_rotary_pos_emb,
    llama_for_sequence_classification_forward,
    llama_mlp_forward,
    llama_rms_norm_forward,
)
from zoo.qwen3.qwen3_gpu_patch_gen_config import qwen3_attention_forward

if TYPE_CHECKING:
    from patchgen_core.runtime.parallel import (
        check_position_ids,
        reduce_loss,
        sequence_parallel_load_balancing,
        slice_position_embeddings,
    )
    from transformers.modeling_utils import slice_logits_to_keep
    from transformers.models.qwen3_moe.modeling_qwen3_moe import load_balancing_loss_func

    from zoo.qwen3_moe.generated.patched_modeling_qwen3_moe_gpu import (
        slot_causal_lm_loss,
        slot_load_balancing_loss,
        slot_moe_experts,
    )

# Of three of eight experts, the last one is now and then as near to the next that bfloat16 decides between them, and
# upstream itself takes the other one than in float64. With two of four no toy batch has such a token.
config = PatchConfig(
    source_module="transformers.models.qwen3_moe.modeling_qwen3_moe",
    target_file="patched_modeling_qwen3_moe_gpu.py",
    description="Qwen3-MoE with op slots for GPU training",
)
_NAMES = {"Llama": "Qwen3Moe"}

SEQUENCE_PARALLEL_LOSSES = ("reduce_loss", "sequence_parallel_load_balancing")
"""What the patch of the causal language model calls, of ``patchgen_core.runtime.parallel``."""

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_import("patchgen_core.runtime.parallel", names=sorted({*SEQUENCE_PARALLEL, *SEQUENCE_PARALLEL_LOSSES}))
config.add_import("transformers.modeling_outputs", names=["SequenceClassifierOutputWithPast"])
config.add_import("transformers.utils", names=["logging"])
config.add_post_import_block(
    """
    slot_rms_norm = OpSlot("rms_norm", "standard")
    slot_rotary_pos_emb = OpSlot("rotary_pos_emb", "full")
    slot_swiglu_mlp = OpSlot("swiglu_mlp", "standard")
    slot_moe_experts = OpSlot("moe_experts", "standard")
    slot_load_balancing_loss = OpSlot("moe_load_balancing_loss", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    slot_seq_cls_loss = OpSlot("cross_entropy_loss", "seq_cls")
    """
)

# Kernels of the hub, and transformers' own choice of experts, would take the place of what is patched below.
config.drop_decorators("Qwen3MoeRMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen3MoeAttention", "use_kernelized_func")
config.drop_decorators("Qwen3MoeExperts", "use_experts_implementation")


config.edit_method(
    "Qwen3MoeRMSNorm.forward",
    edit=llama_rms_norm_forward,
    name_map=_NAMES,
    description="Op slot for RMSNorm",
)
config.override_method(
    "Qwen3MoeMLP.forward", replacement=llama_mlp_forward, name_map=_NAMES, description="Op slot for SwiGLU"
)
config.edit_function(
    "apply_rotary_pos_emb", edit=llama_apply_rotary_pos_emb, description="Op slot for the rotary embedding"
)


# ================================================================
# Patch: Qwen3MoeExperts.forward
# 1. all experts in one grouped matrix multiply where a kernel is bound
# ================================================================
@config.edit_method("Qwen3MoeExperts.forward", description="Op slot for the experts")
def qwen3_moe_experts_forward(self, hidden_states, top_k_index, top_k_weights):
    if slot_moe_experts.has_kernel:
        return slot_moe_experts(
            hidden_states, top_k_index, top_k_weights, self.gate_up_proj, self.down_proj, self.act_fn
        )
    ...


config.edit_method(
    "Qwen3MoeAttention.forward",
    edit=qwen3_attention_forward,
    name_map={"Qwen3": "Qwen3Moe"},
    description="Sequence parallel attention",
)


# ================================================================
# Patch: Qwen3MoeModel.forward
# 1. under sequence parallelism positions and masks are those of whole sequences, the rest is this rank's slice
# ================================================================
qwen3_moe_model_forward = Edits()


@qwen3_moe_model_forward.edit(at="if inputs_embeds is None:")
def call_check_position_ids(position_ids, inputs_embeds):
    ...
    check_position_ids(position_ids, inputs_embeds)


qwen3_moe_model_forward.replace_code(
    "mask_function(..., inputs_embeds=inputs_embeds)",
    "mask_function(..., inputs_embeds=whole_sequence_like(inputs_embeds))",
)


@qwen3_moe_model_forward.edit(at="position_embeddings = self.rotary_emb(...)")
def call_slice_position_embeddings(position_embeddings):
    ...
    position_embeddings = slice_position_embeddings(position_embeddings)


config.edit_method(
    "Qwen3MoeModel.forward", edit=qwen3_moe_model_forward, description="Positions and masks of whole sequences"
)


# ================================================================
# Patch: Qwen3MoeForCausalLM.forward
# 1. fused linear cross entropy where a kernel is bound - no logits are made then
# 2. load-balancing loss by its slot
# 3. under sequence parallelism both losses are those of whole sequences
# ================================================================
qwen3_moe_for_causal_lm_forward = Edits()
qwen3_moe_for_causal_lm_forward.delete_code("""
    hidden_states = slice_logits_to_keep(...)
    logits = self.lm_head(...)
    """)


@qwen3_moe_for_causal_lm_forward.edit(
    at="""
    if labels is not None:
        loss = self.loss_function(logits, labels, self.vocab_size, **kwargs)
    """
)
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


@qwen3_moe_for_causal_lm_forward.edit(at="aux_loss = load_balancing_loss_func(...)")
def call_sequence_parallel_load_balancing(self, attention_mask, kwargs, outputs):
    balance = slot_load_balancing_loss if slot_load_balancing_loss.has_kernel else load_balancing_loss_func
    balance = sequence_parallel_load_balancing(balance)
    aux_loss = balance(
        outputs.router_logits,
        self.num_experts,
        self.num_experts_per_tok,
        kwargs.get("token_mask", attention_mask),
    )


config.edit_method(
    "Qwen3MoeForCausalLM.forward", edit=qwen3_moe_for_causal_lm_forward, description="Op slots for the losses"
)


config.override_method(
    "Qwen3MoeForSequenceClassification.forward",
    replacement=llama_for_sequence_classification_forward,
    name_map=_NAMES,
    description="Op slot for the loss of sequence classification",
)


# ================================================================
# Patch: Qwen3MoeForCausalLM.get_parallel_plan
# 1. new - a trainer asks the model which parameters it may split
# ================================================================
@config.override_method(
    "Qwen3MoeForCausalLM.get_parallel_plan", description="Expert parallel plan for trainers", add=True
)
def qwen3_moe_get_parallel_plan(self):
    # --- Patch.1 ---
    from zoo.qwen3_moe.parallel_plan import get_parallel_plan

    return get_parallel_plan()
    # --- Patch.1 ---
