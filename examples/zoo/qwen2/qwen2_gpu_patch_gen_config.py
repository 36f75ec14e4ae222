"""Qwen2 by op slots: it has Llama's norm, MLP, rotary embedding and heads, and so Llama's patches.

Where nothing is bound, the generated module runs upstream's own lines.

    patchgen zoo.qwen2.qwen2_gpu_patch_gen_config --diff
"""

from typing import TYPE_CHECKING

from patchgen import PatchConfig

from zoo.llama.llama_gpu_patch_gen_config import (
    SEQUENCE_PARALLEL,
    llama_apply_rotary_pos_emb,
    llama_for_causal_lm_forward,
    llama_for_sequence_classification_forward,
    llama_mlp_forward,
    llama_rms_norm_forward,
)
from zoo.qwen3.qwen3_gpu_patch_gen_config import qwen3_model_forward

if TYPE_CHECKING:
    from patchgen_core.runtime.parallel import sequence_parallel_attention

config = PatchConfig(
    source_module="transformers.models.qwen2.modeling_qwen2",
    target_file="patched_modeling_qwen2_gpu.py",
    description="Qwen2 with op slots for GPU training",
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
config.drop_decorators("Qwen2RMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen2Attention", "use_kernelized_func")

QWEN2 = {"Llama": "Qwen2"}
config.edit_method(
    "Qwen2RMSNorm.forward", edit=llama_rms_norm_forward, name_map=QWEN2, description="Op slot for RMSNorm"
)
config.override_method(
    "Qwen2MLP.forward", replacement=llama_mlp_forward, name_map=QWEN2, description="Op slot for SwiGLU"
)
config.edit_function(
    "apply_rotary_pos_emb", edit=llama_apply_rotary_pos_emb, description="Op slot for the rotary embedding"
)
config.edit_method(
    "Qwen2ForCausalLM.forward",
    edit=llama_for_causal_lm_forward,
    name_map=QWEN2,
    description="Op slot for the loss",
)
config.override_method(
    "Qwen2ForSequenceClassification.forward",
    replacement=llama_for_sequence_classification_forward,
    name_map=QWEN2,
    description="Op slot for the loss of sequence classification",
)


# ================================================================
# Patch: Qwen2Attention.forward
# 1. under sequence parallelism each rank attends with its heads to whole sequences, of which it holds a slice
# ================================================================
@config.edit_method(
    "Qwen2Attention.forward",
    at="attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(...)",
    description="Sequence parallel attention",
)
def qwen2_attention_forward(attention_interface):
    ...
    attention_interface = sequence_parallel_attention(attention_interface)


config.edit_method(
    "Qwen2Model.forward",
    edit=qwen3_model_forward,
    name_map={"Qwen3": "Qwen2"},
    description="Positions and masks of whole sequences",
)
