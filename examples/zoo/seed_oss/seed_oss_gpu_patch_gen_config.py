"""Seed-OSS by op slots: Llama's norm, rotary embedding and heads, and so Llama's patches; the MLP has dropout.

Where nothing is bound, the generated module runs upstream's own lines.

    patchgen zoo.seed_oss.seed_oss_gpu_patch_gen_config --diff
"""

from typing import TYPE_CHECKING

from patchgen import PatchConfig

from zoo.llama.llama_gpu_patch_gen_config import (
    SEQUENCE_PARALLEL,
    llama_apply_rotary_pos_emb,
    llama_for_causal_lm_forward,
    llama_for_sequence_classification_forward,
    llama_model_forward,
    llama_rms_norm_forward,
)

if TYPE_CHECKING:
    from patchgen_core.runtime.parallel import sequence_parallel_attention

    from zoo.seed_oss.generated.patched_modeling_seed_oss_gpu import slot_swiglu_mlp

config = PatchConfig(
    source_module="transformers.models.seed_oss.modeling_seed_oss",
    target_file="patched_modeling_seed_oss_gpu.py",
    description="Seed-OSS with op slots for GPU training",
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

# With kernels of the hub switched on, this would take the place of what is patched below.
config.drop_decorators("SeedOssRMSNorm", "use_kernel_forward_from_hub")

config.edit_method(
    "SeedOssRMSNorm.forward",
    edit=llama_rms_norm_forward,
    name_map={"Llama": "SeedOss"},
    description="Op slot for RMSNorm",
)


# ================================================================
# Patch: SeedOssMLP.forward
# 1. fused SiLU and product where a kernel is bound - dropout comes after it, as upstream
# ================================================================
@config.edit_method("SeedOssMLP.forward", at="down_proj = self.down_proj(...)", description="Op slot for SwiGLU")
def seed_oss_mlp_forward(self, x):
    if slot_swiglu_mlp.has_kernel:
        if self.config.hidden_act not in ("silu", "swish"):
            raise ValueError(f"slot_swiglu_mlp computes SwiGLU, and hidden_act is {self.config.hidden_act!r}")
        down_proj = self.down_proj(slot_swiglu_mlp(self.gate_proj(x), self.up_proj(x)))
    else:
        ...


config.edit_function(
    "apply_rotary_pos_emb", edit=llama_apply_rotary_pos_emb, description="Op slot for the rotary embedding"
)
config.edit_method(
    "SeedOssForCausalLM.forward",
    edit=llama_for_causal_lm_forward,
    name_map={"Llama": "SeedOss"},
    description="Op slot for the loss",
)
config.override_method(
    "SeedOssForSequenceClassification.forward",
    replacement=llama_for_sequence_classification_forward,
    name_map={"Llama": "SeedOss"},
    description="Op slot for the loss of sequence classification",
)


# ================================================================
# Patch: SeedOssAttention.forward
# 1. under sequence parallelism each rank attends with its heads to whole sequences, of which it holds a slice
# ================================================================
@config.edit_method(
    "SeedOssAttention.forward",
    at="attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(...)",
    description="Sequence parallel attention",
)
def seed_oss_attention_forward(attention_interface):
    ...
    attention_interface = sequence_parallel_attention(attention_interface)


config.edit_method(
    "SeedOssModel.forward",
    edit=llama_model_forward,
    name_map={"Llama": "SeedOss"},
    description="Positions and masks of whole sequences",
)
