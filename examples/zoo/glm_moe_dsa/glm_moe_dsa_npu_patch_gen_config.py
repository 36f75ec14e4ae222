"""GLM-MoE-DSA on an Ascend NPU: norm and MLP by torch_npu, all else from the config for GPUs.

Elsewhere than on an NPU the generated module runs upstream's own lines.

    patchgen zoo.glm_moe_dsa.glm_moe_dsa_npu_patch_gen_config --diff
"""

from patchgen import PatchConfig

from zoo.glm_moe_dsa.glm_moe_dsa_gpu_patch_gen_config import config as gpu_config
from zoo.seed_oss.seed_oss_npu_patch_gen_config import (
    IMPORT_TORCH_NPU,
    npu_mlp_forward,
    npu_rms_norm_forward,
)

config = PatchConfig(
    source_module=gpu_config.source_module,
    target_file="patched_modeling_glm_moe_dsa_npu.py",
    description="GLM-MoE-DSA for NPU training",
    toy_config=gpu_config.toy_config,
)
config.additional_imports.extend(gpu_config.additional_imports)
config.dropped_decorators.extend(gpu_config.dropped_decorators)
config.add_post_import_block(IMPORT_TORCH_NPU)
config.add_post_import_block(
    """
    slot_moe_experts = OpSlot("moe_experts", "standard")
    slot_causal_lm_loss = OpSlot("cross_entropy_loss", "causal")
    """
)
ON_NPU = ("GlmMoeDsaRMSNorm.forward", "GlmMoeDsaMLP.forward")
config.patches.extend(patch for patch in gpu_config.patches if patch.target not in ON_NPU)

# The rotary embedding stays upstream's here too: npu_apply_rotary_pos_emb of the other configs rotates halves of a
# head, and these heads are rotated by neighbouring pairs.
config.edit_method(
    "GlmMoeDsaRMSNorm.forward",
    edit=npu_rms_norm_forward,
    name_map={"SeedOss": "GlmMoeDsa"},
    description="RMSNorm by torch_npu",
)
config.override_method("GlmMoeDsaMLP.forward", replacement=npu_mlp_forward, description="SwiGLU by torch_npu")
