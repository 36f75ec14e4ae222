"""DeepSeek-V3 by op slots: Llama's norm and MLP, Qwen3-MoE's experts, and so their patches. Ranks may share sequences.

Where nothing is bound, the generated module runs upstream's own lines. GLM-MoE-DSA has the same head for language
modeling: it imports the patch.

    patchgen zoo.deepseek_v3.deepseek_v3_gpu_patch_gen_config --diff
"""

from typing import TYPE_CHECKING

from patchgen import Edits, PatchConfig

from zoo.llama.llama_gpu_patch_gen_config import (
    SEQUENCE_PARALLEL,
    llama_for_sequence_classification_forward,
    llama_mlp_forward,
    llama_rms_norm_forward,
)
from zoo.qwen3_moe.qwen3_moe_gpu_patch_gen_config import qwen3_moe_experts_forward, qwen3_moe_get_parallel_plan

if TYPE_CHECKING:
    from patchgen_core.runtime.parallel import (
        check_position_ids,
        reduce_loss,
        sequence_parallel_attention,
        slice_position_embeddings,
    )
    from transformers.modeling_utils import slice_logits_to_keep

    from zoo.deepseek_v3.generated.patched_modeling_deepseek_v3_gpu import slot_causal_lm_loss

config = PatchConfig(
    source_module="transformers.models.deepseek_v3.modeling_deepseek_v3",
    target_file="patched_modeling_deepseek_v3_gpu.py",
    description="DeepSeek-V3 with op slots for GPU training",
)

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_import("patchgen_core.runtime.parallel", names=list(SEQUENCE_PARALLEL))
config.add_import("transformers.modeling_outputs", names=["SequenceClassifierOutputWithPast"])
config.add_import("transformers.utils", names=["logging"])
config.add_post_import_block(
    """
    slot_rms_norm = OpSlot("rms_norm", "standard")
    slot_swiglu_mlp = OpSlot("swiglu_mlp", "standard")
    slot_moe_experts = OpSlot("moe_experts", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    slot_seq_cls_loss = OpSlot("cross_entropy_loss", "seq_cls")
    """
)

# Kernels of the hub, and transformers' own choice of experts, would take the place of what is patched below.
config.drop_decorators("DeepseekV3RMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("DeepseekV3Experts", "use_experts_implementation")

# What is left as upstream has it:
# - the rotary embedding: rotary_pos_emb/full rotates halves of a head, and these heads are rotated by neighbouring
#   pairs (rope_interleave, the default). Without rope_interleave the kernel would fit, but a toy model takes one of
#   the two ways, and a patch of the other would go unproved;
# - a load-balancing loss: upstream has none, the router balances by a bias on the choice of experts.

config.edit_method(
    "DeepseekV3RMSNorm.forward",
    edit=llama_rms_norm_forward,
    name_map={"Llama": "DeepseekV3"},
    description="Op slot for RMSNorm",
)

# A slot in forward, not Liger's MLP class in place of this one: the class takes its width from the configuration
# alone, and the shared experts are this MLP with a width of their own (intermediate_size=).
config.override_method(
    "DeepseekV3MLP.forward",
    replacement=llama_mlp_forward,
    name_map={"Llama": "DeepseekV3"},
    description="Op slot for SwiGLU",
)
config.edit_method(
    "DeepseekV3Experts.forward",
    edit=qwen3_moe_experts_forward,
    name_map={"Qwen3Moe": "DeepseekV3"},
    description="Op slot for the experts",
)


# ================================================================
# Patch: DeepseekV3Attention.forward
# 1. under sequence parallelism each rank attends with its heads to whole sequences, of which it holds a slice. What
#    is exchanged are keys and values of all heads, after the latents: each head's key has the rotated part that all
#    heads share, and values have a width of their own
# ================================================================
@config.edit_method(
    "DeepseekV3Attention.forward",
    at="attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(...)",
    description="Sequence parallel attention",
)
def deepseek_v3_attention_forward(attention_interface):
    ...
    attention_interface = sequence_parallel_attention(attention_interface)


# ================================================================
# Patch: DeepseekV3Model.forward
# 1. under sequence parallelism positions and masks are those of whole sequences, the rest is this rank's slice
# ================================================================
@config.edit_method(
    "DeepseekV3Model.forward", at="if inputs_embeds is None:", description="Positions and masks of whole sequences"
)
def deepseek_v3_model_forward(position_ids, inputs_embeds):
    ...
    check_position_ids(position_ids, inputs_embeds)


config.replace_code(
    "DeepseekV3Model.forward",
    "create_causal_mask(..., inputs_embeds=inputs_embeds)",
    "create_causal_mask(..., inputs_embeds=whole_sequence_like(inputs_embeds))",
)


@config.edit_method("DeepseekV3Model.forward", at="position_embeddings = self.rotary_emb(...)")
def call_slice_position_embeddings(position_embeddings):
    ...
    position_embeddings = slice_position_embeddings(position_embeddings)


# ================================================================
# Patch: DeepseekV3ForCausalLM.forward
# 1. fused linear cross entropy where a kernel is bound - no logits are made then
# 2. under sequence parallelism the loss is that of whole sequences
# ================================================================
deepseek_v3_for_causal_lm_forward = Edits()
deepseek_v3_for_causal_lm_forward.delete_code("""
    hidden_states = slice_logits_to_keep(...)
    logits = self.lm_head(...)
    """)


@deepseek_v3_for_causal_lm_forward.edit(at="if labels is not None:")
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
        # Only compute necessary logits, and do not upcast them to float if we are not computing the loss
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


config.edit_method(
    "DeepseekV3ForCausalLM.forward", edit=deepseek_v3_for_causal_lm_forward, description="Op slot for the loss"
)


config.override_method(
    "DeepseekV3ForSequenceClassification.forward",
    replacement=llama_for_sequence_classification_forward,
    name_map={"Llama": "DeepseekV3"},
    description="Op slot for the loss of sequence classification",
)
config.override_method(
    "DeepseekV3ForCausalLM.get_parallel_plan",
    replacement=qwen3_moe_get_parallel_plan,
    name_map={"Qwen3Moe": "DeepseekV3", "qwen3_moe": "deepseek_v3"},
    description="Expert parallel plan for trainers",
    add=True,
)
