"""Mistral by op slots: it has Llama's norm, MLP, rotary embedding and heads, and so Llama's patches.

Where nothing is bound, the generated module runs upstream's own lines.

    patchgen zoo.mistral.mistral_gpu_patch_gen_config --diff
"""

from typing import TYPE_CHECKING

from patchgen import Edits, PatchConfig

from zoo.llama.llama_gpu_patch_gen_config import (
    SEQUENCE_PARALLEL,
    llama_apply_rotary_pos_emb,
    llama_for_causal_lm_forward,
    llama_for_sequence_classification_forward,
    llama_mlp_forward,
    llama_rms_norm_forward,
)

if TYPE_CHECKING:
    from patchgen_core.runtime.parallel import (
        check_position_ids,
        sequence_parallel_attention,
        slice_position_embeddings,
    )

config = PatchConfig(
    source_module="transformers.models.mistral.modeling_mistral",
    target_file="patched_modeling_mistral_gpu.py",
    description="Mistral with op slots for GPU training",
)

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_import("patchgen_core.runtime.parallel", names=list(SEQUENCE_PARALLEL))
config.add_import("transformers.modeling_outputs", names=["SequenceClassifierOutputWithPast"])
config.add_import("transformers.utils", names=["logging"])
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
config.drop_decorators("MistralRMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("MistralAttention", "use_kernelized_func")

MISTRAL = {"Llama": "Mistral"}
config.edit_method(
    "MistralRMSNorm.forward", edit=llama_rms_norm_forward, name_map=MISTRAL, description="Op slot for RMSNorm"
)
config.override_method(
    "MistralMLP.forward", replacement=llama_mlp_forward, name_map=MISTRAL, description="Op slot for SwiGLU"
)
config.edit_function(
    "apply_rotary_pos_emb", edit=llama_apply_rotary_pos_emb, description="Op slot for the rotary embedding"
)
config.edit_method(
    "MistralForCausalLM.forward",
    edit=llama_for_causal_lm_forward,
    name_map=MISTRAL,
    description="Op slot for the loss",
)
config.override_method(
    "MistralForSequenceClassification.forward",
    replacement=llama_for_sequence_classification_forward,
    name_map=MISTRAL,
    description="Op slot for the loss of sequence classification",
)


# ================================================================
# Patch: MistralAttention.forward
# 1. under sequence parallelism each rank attends with its heads to whole sequences, of which it holds a slice
# ================================================================
mistral_attention_forward = Edits()


@mistral_attention_forward.edit(at="attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(...)")
def call_sequence_parallel_attention(attention_interface):
    ...
    attention_interface = sequence_parallel_attention(attention_interface)


config.edit_method(
    "MistralAttention.forward", edit=mistral_attention_forward, description="Sequence parallel attention"
)


# ================================================================
# Patch: MistralModel.forward
# 1. under sequence parallelism positions and masks are those of whole sequences, the rest is this rank's slice
# ================================================================
@config.edit_method(
    "MistralModel.forward",
    at="if use_cache and past_key_values is None:",
    description="Positions and masks of whole sequences",
)
def mistral_model_forward(position_ids, inputs_embeds):
    ...
    check_position_ids(position_ids, inputs_embeds)


config.replace_code(
    "MistralModel.forward",
    "mask_function(..., inputs_embeds=inputs_embeds)",
    "mask_function(..., inputs_embeds=whole_sequence_like(inputs_embeds))",
)


@config.edit_method("MistralModel.forward", at="position_embeddings = self.rotary_emb(...)")
def call_slice_position_embeddings(position_embeddings):
    ...
    position_embeddings = slice_position_embeddings(position_embeddings)
