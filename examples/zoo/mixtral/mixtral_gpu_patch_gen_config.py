"""Mixtral by op slots: norm and rotary embedding are Llama's, experts and losses Qwen3-MoE's, and so their patches.

Attention is Mistral's. Ranks may share experts and sequences, as they do Qwen3-MoE's.

Where nothing is bound, the generated module runs upstream's own lines. The router, and the noise that it gets in
training (``router_jitter_noise``), are upstream's: the noise is multiplied into the norm's output in place, which
every implementation of ``slot_rms_norm`` allows. Parity runs without it: float64 draws other noise than float32.

    patchgen zoo.mixtral.mixtral_gpu_patch_gen_config --diff
"""

from patchgen import PatchConfig

from zoo.llama.llama_gpu_patch_gen_config import (
    SEQUENCE_PARALLEL,
    llama_apply_rotary_pos_emb,
    llama_for_sequence_classification_forward,
    llama_rms_norm_forward,
)
from zoo.mistral.mistral_gpu_patch_gen_config import mistral_attention_forward
from zoo.qwen3_moe.qwen3_moe_gpu_patch_gen_config import (
    SEQUENCE_PARALLEL_LOSSES,
    qwen3_moe_experts_forward,
    qwen3_moe_for_causal_lm_forward,
    qwen3_moe_model_forward,
)

# Of three of eight experts, the last one is now and then as near to the next that bfloat16 decides between them, and
# a kernel that rounds in another order takes the other one. With two of four no toy batch has such a token.
config = PatchConfig(
    source_module="transformers.models.mixtral.modeling_mixtral",
    target_file="patched_modeling_mixtral_gpu.py",
    description="Mixtral with op slots for GPU training",
)
_NAMES = {"Llama": "Mixtral", "Qwen3Moe": "Mixtral"}

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_import("patchgen_core.runtime.parallel", names=sorted({*SEQUENCE_PARALLEL, *SEQUENCE_PARALLEL_LOSSES}))
config.add_import("transformers.modeling_outputs", names=["SequenceClassifierOutputWithPast"])
config.add_import("transformers.utils", names=["logging"])
config.add_post_import_block(
    """
    slot_rms_norm = OpSlot("rms_norm", "standard")
    slot_rotary_pos_emb = OpSlot("rotary_pos_emb", "full")
    slot_moe_experts = OpSlot("moe_experts", "standard")
    slot_load_balancing_loss = OpSlot("moe_load_balancing_loss", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    slot_seq_cls_loss = OpSlot("cross_entropy_loss", "seq_cls")
    """
)

# Kernels of the hub, and transformers' own choice of experts, would take the place of what is patched below.
config.drop_decorators("MixtralRMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("MixtralAttention", "use_kernelized_func")
config.drop_decorators("MixtralExperts", "use_experts_implementation")

config.edit_method(
    "MixtralRMSNorm.forward",
    edit=llama_rms_norm_forward,
    name_map=_NAMES,
    description="Op slot for RMSNorm",
)
config.edit_function(
    "apply_rotary_pos_emb", edit=llama_apply_rotary_pos_emb, description="Op slot for the rotary embedding"
)
config.edit_method(
    "MixtralExperts.forward",
    edit=qwen3_moe_experts_forward,
    name_map=_NAMES,
    description="Op slot for the experts",
)
config.edit_method(
    "MixtralAttention.forward",
    edit=mistral_attention_forward,
    name_map={"Mistral": "Mixtral"},
    description="Sequence parallel attention",
)
config.edit_method(
    "MixtralModel.forward",
    edit=qwen3_moe_model_forward,
    name_map=_NAMES,
    description="Positions and masks of whole sequences",
)
config.edit_method(
    "MixtralForCausalLM.forward",
    edit=qwen3_moe_for_causal_lm_forward,
    name_map=_NAMES,
    description="Op slots for the losses",
)
config.override_method(
    "MixtralForSequenceClassification.forward",
    replacement=llama_for_sequence_classification_forward,
    name_map=_NAMES,
    description="Op slot for the loss of sequence classification",
)


# ================================================================
# Patch: MixtralForCausalLM.get_parallel_plan
# 1. new - a trainer asks the model which parameters it may split
# ================================================================
@config.override_method(
    "MixtralForCausalLM.get_parallel_plan", description="Expert parallel plan for trainers", add=True
)
def mixtral_get_parallel_plan(self):
    # --- Patch.1 ---
    from zoo.mixtral.parallel_plan import get_parallel_plan

    return get_parallel_plan()
    # --- Patch.1 ---
