"""Mistral by op slots: it has Llama's norm, MLP, rotary embedding and heads, and so Llama's patches.

Where nothing is bound, the generated module runs upstream's own lines.

    patchgen zoo.mistral.mistral_gpu_patch_gen_config --diff
"""

from patchgen import PatchConfig

from zoo.llama.llama_gpu_patch_gen_config import (
    llama_apply_rotary_pos_emb,
    llama_for_causal_lm_forward,
    llama_for_sequence_classification_forward,
    llama_mlp_forward,
    llama_rms_norm_forward,
)

config = PatchConfig(
    source_module="transformers.models.mistral.modeling_mistral",
    target_file="patched_modeling_mistral_gpu.py",
    description="Mistral with op slots for GPU training",
)

config.add_import("patchgen_core.ops", names=["OpSlot"])
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
config.override_method(
    "MistralRMSNorm.forward", replacement=llama_rms_norm_forward, name_map=MISTRAL, description="Op slot for RMSNorm"
)
config.override_method(
    "MistralMLP.forward", replacement=llama_mlp_forward, name_map=MISTRAL, description="Op slot for SwiGLU"
)
config.replace_function(
    "apply_rotary_pos_emb", replacement=llama_apply_rotary_pos_emb, description="Op slot for the rotary embedding"
)
config.override_method(
    "MistralForCausalLM.forward",
    replacement=llama_for_causal_lm_forward,
    name_map=MISTRAL,
    description="Op slot for the loss",
)
config.override_method(
    "MistralForSequenceClassification.forward",
    replacement=llama_for_sequence_classification_forward,
    name_map=MISTRAL,
    description="Op slot for the loss of sequence classification",
)
