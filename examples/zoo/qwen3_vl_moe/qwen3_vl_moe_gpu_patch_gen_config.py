"""Qwen3-VL-MoE by op slots: the text model's patches are those of Qwen3-MoE.

Where nothing is bound, the generated module runs upstream's own lines.

    patchgen zoo.qwen3_vl_moe.qwen3_vl_moe_gpu_patch_gen_config --diff
"""

from patchgen import PatchConfig
from transformers.models.qwen3_vl_moe.configuration_qwen3_vl_moe import Qwen3VLMoeConfig

from zoo.llama.llama_gpu_patch_gen_config import (
    llama_apply_rotary_pos_emb,
    llama_mlp_forward,
    llama_rms_norm_forward,
)
from zoo.qwen3_moe.qwen3_moe_gpu_patch_gen_config import qwen3_moe_experts_forward

config = PatchConfig(
    source_module="transformers.models.qwen3_vl_moe.modeling_qwen3_vl_moe",
    target_file="patched_modeling_qwen3_vl_moe_gpu.py",
    description="Qwen3-VL-MoE with op slots for GPU training",
)

config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_post_import_block(
    """
    slot_rms_norm = OpSlot("rms_norm", "standard")
    slot_rotary_pos_emb = OpSlot("rotary_pos_emb", "full")
    slot_swiglu_mlp = OpSlot("swiglu_mlp", "standard")
    slot_moe_experts = OpSlot("moe_experts", "standard")
    """
)

# Kernels of the hub, and transformers' own choice of experts, would take the place of what is patched below.
config.drop_decorators("Qwen3VLMoeTextRMSNorm", "use_kernel_forward_from_hub")
config.drop_decorators("Qwen3VLMoeTextAttention", "use_kernelized_func")
config.drop_decorators("Qwen3VLMoeTextExperts", "use_experts_implementation")

config.override_method(
    "Qwen3VLMoeTextRMSNorm.forward", replacement=llama_rms_norm_forward, description="Op slot for RMSNorm"
)
config.override_method("Qwen3VLMoeTextMLP.forward", replacement=llama_mlp_forward, description="Op slot for SwiGLU")
config.override_method(
    "Qwen3VLMoeTextExperts.forward", replacement=qwen3_moe_experts_forward, description="Op slot for the experts"
)
# The positions of the three axes are interleaved before this function, which rotates whole heads.
config.replace_function(
    "apply_rotary_pos_emb", replacement=llama_apply_rotary_pos_emb, description="Op slot for the rotary embedding"
)


# ================================================================
# Patch: Qwen3VLMoeModel.__init__
# 1. the text model of this module - AutoModel would make upstream's, in which nothing is patched
# ================================================================
@config.override_method("Qwen3VLMoeModel.__init__", description="The patched text model instead of upstream's")
def qwen3_vl_moe_model_init(self, config: Qwen3VLMoeConfig):
    super().__init__(config)
    self.visual = AutoModel.from_config(config.vision_config)
    # --- Patch.1 ---
    self.language_model = Qwen3VLMoeTextModel._from_config(config.text_config)
    # --- Patch.1 ---
    self.rope_deltas = None  # cache rope_deltas here

    # Initialize weights and apply final processing
    self.post_init()


# ================================================================
# Patch: Qwen3VLMoeForConditionalGeneration.get_parallel_plan
# 1. new - a trainer asks the model which parameters it may split
# ================================================================
@config.override_method(
    "Qwen3VLMoeForConditionalGeneration.get_parallel_plan", description="Expert parallel plan for trainers", add=True
)
def qwen3_vl_moe_get_parallel_plan(self):
    # --- Patch.1 ---
    from zoo.qwen3_vl_moe.parallel_plan import get_parallel_plan

    return get_parallel_plan()
    # --- Patch.1 ---
