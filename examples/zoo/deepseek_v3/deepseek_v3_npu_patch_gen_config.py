"""DeepSeek-V3 on an Ascend NPU: norm and MLP by torch_npu, all else from the config for GPUs.

Elsewhere than on an NPU the generated module runs upstream's own lines.

    patchgen zoo.deepseek_v3.deepseek_v3_npu_patch_gen_config --diff
"""

from patchgen import PatchConfig

from zoo.deepseek_v3.deepseek_v3_gpu_patch_gen_config import config as gpu_config
from zoo.seed_oss.seed_oss_npu_patch_gen_config import (
    IMPORT_TORCH_NPU,
    npu_mlp_forward,
    npu_rms_norm_forward,
)

config = PatchConfig(
    source_module=gpu_config.source_module,
    target_file="patched_modeling_deepseek_v3_npu.py",
    description="DeepSeek-V3 for NPU training",
)
config.additional_imports.extend(gpu_config.additional_imports)
config.dropped_decorators.extend(gpu_config.dropped_decorators)
config.add_post_import_block(IMPORT_TORCH_NPU)
config.add_post_import_block(
    """
    slot_moe_experts = OpSlot("moe_experts", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    slot_seq_cls_loss = OpSlot("cross_entropy_loss", "seq_cls")
    """
)
ON_NPU = ("DeepseekV3RMSNorm.forward", "DeepseekV3MLP.forward")
config.patches.extend(patch for patch in gpu_config.patches if patch.target not in ON_NPU)

# The rotary embedding stays upstream's here too: npu_apply_rotary_pos_emb of the other configs rotates halves of a
# head, and these heads are rotated by neighbouring pairs.
config.edit_method(
    "DeepseekV3RMSNorm.forward",
    edit=npu_rms_norm_forward,
    name_map={"SeedOss": "DeepseekV3"},
    description="RMSNorm by torch_npu",
)
config.override_method("DeepseekV3MLP.forward", replacement=npu_mlp_forward, description="SwiGLU by torch_npu")
