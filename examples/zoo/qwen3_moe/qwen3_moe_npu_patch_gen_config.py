"""Qwen3-MoE on an Ascend NPU: norm, rotary embedding and MLP by torch_npu, all else from the config for GPUs.

Elsewhere than on an NPU the generated module runs upstream's own lines.

    patchgen zoo.qwen3_moe.qwen3_moe_npu_patch_gen_config --diff
"""

from patchgen import PatchConfig

from zoo.qwen3_moe.qwen3_moe_gpu_patch_gen_config import config as gpu_config
from zoo.seed_oss.seed_oss_npu_patch_gen_config import (
    IMPORT_TORCH_NPU,
    npu_apply_rotary_pos_emb,
    npu_mlp_forward,
    npu_rms_norm_forward,
)

config = PatchConfig(
    source_module=gpu_config.source_module,
    target_file="patched_modeling_qwen3_moe_npu.py",
    description="Qwen3-MoE for NPU training",
    toy_config=gpu_config.toy_config,
)
_NAMES = {"SeedOss": "Qwen3Moe"}

config.additional_imports.extend(gpu_config.additional_imports)
config.dropped_decorators.extend(gpu_config.dropped_decorators)
config.add_post_import_block(IMPORT_TORCH_NPU)
config.add_post_import_block(
    """
    slot_moe_experts = OpSlot("moe_experts", "standard")
    slot_load_balancing_loss = OpSlot("moe_load_balancing_loss", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    slot_seq_cls_loss = OpSlot("cross_entropy_loss", "seq_cls")
    """
)
ON_NPU = ("Qwen3MoeRMSNorm.forward", "Qwen3MoeMLP.forward", "apply_rotary_pos_emb")
config.patches.extend(patch for patch in gpu_config.patches if patch.target not in ON_NPU)

config.edit_method(
    "Qwen3MoeRMSNorm.forward",
    edit=npu_rms_norm_forward,
    name_map=_NAMES,
    description="RMSNorm by torch_npu",
)
config.override_method(
    "Qwen3MoeMLP.forward", replacement=npu_mlp_forward, name_map=_NAMES, description="SwiGLU by torch_npu"
)
config.edit_function(
    "apply_rotary_pos_emb", edit=npu_apply_rotary_pos_emb, description="Rotary embedding by torch_npu"
)
